package snapshot

import (
	"maps"
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
)

// PrincipalOf finds the principal whose token makes the entity uid, and the
// claims that the token has: the inverse of an issuer's template. Where the
// template doesn't name the subject, the entity's id stands for it. The
// issuers' templates do not overlap, so there is at most one.
func (s *Snapshot) PrincipalOf(uid types.EntityUID) (p writ.Principal, claims map[string]string, ok bool) {
	for _, name := range slices.Sorted(maps.Keys(s.Issuers)) {
		issuer := s.Issuers[name]
		if subject, claims, ok := issuer.Principal.Match(uid); ok {
			return writ.Principal{Issuer: name, Subject: standIn(subject, uid), Tenant: issuer.Tenant}, claims, true
		}
	}
	return writ.Principal{}, nil, false
}

// ActorOf finds the actor that makes the entity uid, likewise.
func (s *Snapshot) ActorOf(uid types.EntityUID) (writ.Actor, bool) {
	for _, name := range slices.Sorted(maps.Keys(s.Issuers)) {
		if subject, claims, ok := s.Issuers[name].Actor.Match(uid); ok {
			return writ.Actor{Issuer: name, Subject: standIn(subject, uid), Claims: claims}, true
		}
	}
	return writ.Actor{}, false
}

func standIn(subject string, uid types.EntityUID) string {
	if subject == "" {
		return string(uid.ID)
	}
	return subject
}
