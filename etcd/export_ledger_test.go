package etcd

import (
	"time"

	"github.com/writ-pdp/writ/grant"
)

// ParseHolding reads what the keys of grants and proposals say, and writes it
// again.
func ParseHolding(text string) (redemption, attempt, again string, ok bool) {
	h, ok := parseHolding(text)
	return h.redemption, h.attempt.String(), h.String(), ok
}

// ParseRedemption reads the record of an id, and writes it again.
func ParseRedemption(id string, data []byte) (grant.Claim, string, error) {
	c, b, err := parseRedemption(id, data)
	if err != nil {
		return c, "", err
	}
	again, err := encodeRedemption(&c, b)
	return c, again, err
}

// EncodeRedemption writes a claim that is due in the hour before end.
func EncodeRedemption(c grant.Claim, end time.Time) (string, error) {
	return encodeRedemption(&c, bucketOf(end.Add(-time.Second)))
}

// ParseSettlement reads what a redemption was settled with, and writes it again.
func ParseSettlement(redemption string, data []byte) (grant.Effect, string, error) {
	e, call, err := parseSettlement(redemption, data)
	if err != nil {
		return e, "", err
	}
	again, err := encodeSettlement(&e, call)
	return e, again, err
}

// ParseNames reads which keys are due, under a prefix.
func ParseNames(prefix string, data []byte) ([]string, error) { return keys{prefix}.parseNames(data) }

// BucketEnd is when what is due at t may be forgotten.
func BucketEnd(t time.Time) time.Time { return bucketOf(t).end() }

// EffectDigest names an effect.
func EffectDigest(observer, id string) string { return effectDigest(observer, id) }
