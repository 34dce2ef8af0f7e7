package keyringtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/keyring"
)

// Hostile returns JWS that must not open as typ, whatever the payload says:
// each made of the header, the encoding or the signature of a good one. good is
// the payload; the key is that of the seed 1, and that of the seed 9 is
// nobody's.
func Hostile(t testing.TB, typ keyring.Type, good string) []Negative {
	t.Helper()
	return append(hostileHeaders(t, typ, good), hostileTexts(t, typ, good)...)
}

func hostileHeaders(t testing.TB, typ keyring.Type, good string) []Negative {
	t.Helper()
	id := Key(t, 1).ID()
	header := func(alg, kid, typ string) string { return fmt.Sprintf(`{"alg":%q,"kid":%q,"typ":%q}`, alg, kid, typ) }
	alg := func(alg string) string { return header(alg, id, string(typ)) }
	with := func(members string) string {
		return Raw(1, fmt.Sprintf(`{"alg":"EdDSA",%s,"kid":%q,"typ":%q}`, members, id, string(typ)), good)
	}
	jwk := func(seed byte) string {
		return fmt.Sprintf(`{"crv":"Ed25519","kty":"OKP","x":%q}`, Base64(Private(seed)[32:]))
	}
	unsigned := func(header string) string { return Base64([]byte(header)) + "." + Base64([]byte(good)) }
	secret := hmac.New(sha256.New, Private(1)[32:])
	secret.Write([]byte(unsigned(alg("HS256"))))
	other := keyring.TypeApproval
	if typ == other {
		other = keyring.TypeGrant
	}
	const another, byteForByte = "its alg is another", "byte for byte"
	return []Negative{
		{Name: "alg none without a signature", Token: unsigned(alg("none")) + ".", Why: another},
		{Name: "alg none with a signature", Token: Raw(1, alg("none"), good), Why: another},
		{Name: "alg HS256 with the public key as the secret", Token: unsigned(alg("HS256")) + "." + Base64(secret.Sum(nil)), Why: another},
		{Name: "alg ES256", Token: es256(t, unsigned(alg("ES256"))), Why: another},
		{Name: "alg Ed25519, which is another name of the algorithm", Token: Raw(1, alg("Ed25519"), good), Why: another},
		{Name: "alg is no text", Token: Raw(1, strings.Replace(alg("EdDSA"), `"EdDSA"`, `["EdDSA"]`, 1), good), Why: another},
		{Name: "jku", Token: with(`"jku":"https://evil.example/keys"`), Why: "jku"},
		{Name: "jwk of somebody else, who signed", Token: Raw(9, fmt.Sprintf(`{"alg":"EdDSA","jwk":%s,"kid":%q,"typ":%q}`, jwk(9), id, string(typ)), good), Why: "jwk"},
		{Name: "jwk of the key itself", Token: with(`"jwk":` + jwk(1)), Why: "jwk"},
		{Name: "x5u", Token: with(`"x5u":"https://evil.example/cert"`), Why: "x5u"},
		{Name: "x5c", Token: with(`"x5c":["AAAA"]`), Why: "x5c"},
		{Name: "crit with an unknown extension", Token: with(`"crit":["exp"],"exp":1`), Why: "crit"},
		{Name: "crit that is empty", Token: with(`"crit":[]`), Why: "crit"},
		{Name: "an unencoded payload (RFC 7797)", Token: with(`"b64":false,"crit":["b64"]`), Why: "crit"},
		{Name: "zip", Token: with(`"zip":"DEF"`), Why: "compressed"},
		{Name: "cty", Token: with(`"cty":"JWT"`), Why: byteForByte},
		{Name: "typ of the other kind", Token: Raw(1, header("EdDSA", id, string(other)), good), Why: "is wanted"},
		{Name: "typ of a replica's statement", Token: Raw(1, header("EdDSA", id, string(keyring.TypeReplica)), good), Why: "is wanted"},
		{Name: "typ JWT", Token: Raw(1, header("EdDSA", id, "JWT"), good), Why: byteForByte},
		{Name: "typ in capitals", Token: Raw(1, header("EdDSA", id, strings.ToUpper(string(typ))), good), Why: byteForByte},
		{Name: "typ with application/", Token: Raw(1, header("EdDSA", id, "application/"+string(typ)), good), Why: byteForByte},
		{Name: "no typ", Token: Raw(1, fmt.Sprintf(`{"alg":"EdDSA","kid":%q}`, id), good), Why: byteForByte},
		{Name: "no kid", Token: Raw(1, fmt.Sprintf(`{"alg":"EdDSA","typ":%q}`, string(typ)), good), Why: byteForByte},
		{Name: "an unknown kid", Token: Raw(9, header("EdDSA", Key(t, 9).ID(), string(typ)), good), Why: "no key of its kid"},
		{Name: "the kid of another key of the set", Token: Raw(1, header("EdDSA", Key(t, 2).ID(), string(typ)), good), Why: "its signature is not"},
		{Name: "signed by somebody else", Token: Raw(9, alg("EdDSA"), good), Why: "its signature is not"},
		{Name: "white space in the header", Token: Raw(1, strings.Replace(alg("EdDSA"), `,"kid"`, `, "kid"`, 1), good), Why: byteForByte},
		{Name: "the header in another order", Token: Raw(1, fmt.Sprintf(`{"typ":%q,"alg":"EdDSA","kid":%q}`, string(typ), id), good), Why: byteForByte},
		{Name: "alg twice", Token: Raw(1, `{"alg":"none",`+alg("EdDSA")[1:], good), Why: "read in one way"},
		{Name: "the header is an array", Token: Raw(1, `[]`, good), Why: byteForByte},
	}
}

func hostileTexts(t testing.TB, typ keyring.Type, good string) []Negative {
	t.Helper()
	token := Key(t, 1).Sign(typ, []byte(good))
	part := strings.Split(token, ".")
	flattened, err := json.Marshal(map[string]string{"protected": part[0], "payload": part[1], "signature": part[2]})
	if err != nil {
		t.Fatal(err)
	}
	general, err := json.Marshal(map[string]any{"payload": part[1], "signatures": []map[string]string{
		{"protected": part[0], "signature": part[2]}, {"protected": part[0], "signature": part[2]},
	}})
	if err != nil {
		t.Fatal(err)
	}
	changed := Base64([]byte(strings.Replace(good, `"iss":"`, `"iss":"x`, 1)))
	const compact, base64, length = "three parts", "base64url", "86 characters"
	return []Negative{
		{Name: "empty", Token: "", Why: "it is empty"},
		{Name: "one word", Token: "grant", Why: compact},
		{Name: "only dots", Token: "..", Why: "its header is empty"},
		{Name: "two parts", Token: part[0] + "." + part[1], Why: compact},
		{Name: "a fourth part", Token: token + ".AAAA", Why: compact},
		{Name: "a JWE, of five parts", Token: Base64([]byte(`{"alg":"dir","enc":"A256GCM"}`)) + "..AAAAAAAAAAAAAAAA." + part[1] + ".AAAAAAAAAAAAAAAAAAAAAA", Why: compact},
		{Name: "the flattened JSON form", Token: string(flattened), Why: compact},
		{Name: "the general JSON form with two signatures", Token: string(general), Why: compact},
		{Name: "a space before", Token: " " + token, Why: base64},
		{Name: "a line end after", Token: token + "\n", Why: length},
		{Name: "a line end inside", Token: part[0] + "." + part[1][:8] + "\n" + part[1][8:] + "." + part[2], Why: base64},
		{Name: "a tab inside", Token: part[0] + ".\t" + part[1] + "." + part[2], Why: base64},
		{Name: "padding", Token: token + "==", Why: length},
		{Name: "padding of the header", Token: part[0] + "=." + part[1] + "." + part[2], Why: base64},
		{Name: "base64 of the other alphabet", Token: part[0] + "." + part[1] + "." + strings.Repeat("+", 86), Why: base64},
		{Name: "stray bits in the signature", Token: part[0] + "." + part[1] + "." + Stray(part[2]), Why: base64},
		{Name: "a percent-escape", Token: strings.Replace(token, ".", "%2E", 1), Why: compact},
		{Name: "a changed payload", Token: part[0] + "." + changed + "." + part[2], Why: "its signature is not"},
		{Name: "a changed signature", Token: part[0] + "." + part[1] + ".AAAA" + part[2][4:], Why: "its signature is not"},
		{Name: "a signature of nothing", Token: part[0] + "." + part[1] + "." + strings.Repeat("A", 86), Why: "its signature is not"},
		{Name: "a short signature", Token: part[0] + "." + part[1] + "." + part[2][:82], Why: length},
		{Name: "no signature", Token: part[0] + "." + part[1] + ".", Why: length},
		{Name: "the payload is empty", Token: Raw(1, header(t, typ), ""), Why: "its payload is empty"},
		{Name: "a number as the payload", Token: Raw(1, header(t, typ), "1"), Why: "its payload"},
		{Name: "an array as the payload", Token: Raw(1, header(t, typ), "["+good+"]"), Why: "its payload"},
		{Name: "an empty object as the payload", Token: Raw(1, header(t, typ), "{}"), Why: "its payload"},
		{Name: "two objects as the payload", Token: Raw(1, header(t, typ), good+good), Why: "its payload"},
		{Name: "the payload in white space", Token: Raw(1, header(t, typ), " "+good), Why: "one text"},
		{Name: "a line end after the payload", Token: Raw(1, header(t, typ), good+"\n"), Why: "one text"},
		{Name: "white space in the payload", Token: Raw(1, header(t, typ), strings.Replace(good, `,"iss":`, `, "iss":`, 1)), Why: "one text"},
		{Name: "a byte order mark", Token: Raw(1, header(t, typ), "\ufeff"+good), Why: "its payload"},
		{Name: "more than 4 KiB", Token: Raw(1, header(t, typ), good+strings.Repeat(" ", 4096)), Why: "more than 4096 bytes"},
	}
}

func header(t testing.TB, typ keyring.Type) string {
	return fmt.Sprintf(`{"alg":"EdDSA","kid":%q,"typ":%q}`, Key(t, 1).ID(), string(typ))
}

// Stray sets a bit of the last character of base64url that stands for no bit of
// the 32 or 64 bytes.
func Stray(s string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	i := strings.IndexByte(alphabet, s[len(s)-1]) | 1
	return s[:len(s)-1] + alphabet[i:i+1]
}

// es256 signs with a key of another kind, always alike (RFC 6979).
func es256(t testing.TB, unsigned string) string {
	t.Helper()
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), Private(1).Seed())
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(unsigned))
	der, err := key.Sign(nil, sum[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	var point struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &point); err != nil {
		t.Fatal(err)
	}
	return unsigned + "." + Base64(append(point.R.FillBytes(make([]byte, 32)), point.S.FillBytes(make([]byte, 32))...))
}
