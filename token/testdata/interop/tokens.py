"""PyJWT's side of the tests of access tokens.

    tokens.py make                 a token of each algorithm, with the JWK set
    tokens.py check < vectors.json one line for each vector: what PyJWT says
"""

import json
import sys

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm


def make(claims):
    rsa_key = rsa.generate_private_key(65537, 2048)
    kinds = [("EdDSA", ed25519.Ed25519PrivateKey.generate(), OKPAlgorithm)]
    kinds += [(a, ec.generate_private_key(c), ECAlgorithm)
              for a, c in [("ES256", ec.SECP256R1()), ("ES384", ec.SECP384R1()), ("ES512", ec.SECP521R1())]]
    kinds += [(a, rsa_key, RSAAlgorithm) for a in ["PS256", "PS384", "PS512", "RS256", "RS384", "RS512"]]
    keys, tokens = [], []
    for alg, key, family in kinds:
        kid = "py-" + alg
        keys.append({**family.to_jwk(key.public_key(), as_dict=True), "kid": kid, "alg": alg, "use": "sig"})
        tokens.append({"alg": alg, "kid": kid, "token": jwt.encode(claims, key, algorithm=alg, headers={"typ": "at+jwt", "kid": kid})})
    return {"jwks": {"keys": keys}, "tokens": tokens}


def check(file, compact):
    """Raises unless PyJWT accepts the token, as a resource server would ask it."""
    header = jwt.get_unverified_header(compact)
    if header.get("typ", "").lower().removeprefix("application/") != "at+jwt":
        raise jwt.InvalidTokenError("typ")
    keys = [k for k in file["keys"][file["issuer"]]["keys"] if "kid" not in header or k.get("kid") == header["kid"]]
    if len(keys) != 1:
        raise jwt.InvalidTokenError("no such key")
    return jwt.decode(
        compact, jwt.PyJWK(keys[0]).key, algorithms=file["algorithms"], issuer=file["issuer"], audience=file["audience"],
        options={"require": ["exp", "iss", "sub", "aud"], "strict_aud": True},
    )


if sys.argv[1] == "make":
    print(json.dumps(make(json.load(sys.stdin))))
else:
    vectors = json.load(sys.stdin)
    for v in vectors["vectors"]:
        try:
            check(vectors, v["token"])
            print(json.dumps({"name": v["name"], "accept": True}))
        except Exception as e:  # whatever it raises, it refuses
            print(json.dumps({"name": v["name"], "accept": False, "why": repr(e)[:200]}))
