"""PyJWT's side of the tests of grants and approvals: one line for each vector.

    signed.py < vectors.json

This is what anybody can check offline with a stock library. It is no authority
to act.
"""

import json
import sys

import jwt


def check(file, compact):
    """Raises unless PyJWT accepts the token."""
    header = jwt.get_unverified_header(compact)
    if len(compact) > 4096 or header != {"alg": "EdDSA", "kid": header.get("kid"), "typ": file["type"]}:
        raise jwt.InvalidTokenError("size or header")
    key = jwt.PyJWKSet.from_dict(file["jwks"])[header["kid"]]
    # PyJWT reads the machine's clock; the vectors have a time of their own.
    times = {"verify_exp": False, "verify_iat": False, "verify_nbf": False}
    claims = jwt.decode(
        compact, key, algorithms=["EdDSA"], issuer=file["issuer"], audience=file.get("audience"),
        options={"require": ["exp", "iat", "iss", "jti", "sub"], "strict_aud": "audience" in file, **times},
    )
    if claims.get("instance") != file["instance"]:
        raise jwt.InvalidTokenError("instance")
    if "audience" in file and not int(claims["iat"]) - 5 <= file["now"] < int(claims["exp"]):
        raise jwt.ExpiredSignatureError("now")
    return claims


vectors = json.load(sys.stdin)
for v in vectors["positives"] + vectors["negatives"]:
    try:
        claims = check(vectors, v["token"])
        print(json.dumps({"name": v["name"], "accept": True, "same": "claims" in v and claims == json.loads(v["claims"])}))
    except Exception as e:  # whatever it raises, it refuses
        print(json.dumps({"name": v["name"], "accept": False, "why": repr(e)[:200]}))
