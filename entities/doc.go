// Package entities holds what a bundle says about people, groups, agents and
// things: Cedar entities with validity windows.
//
// [Decode] reads one file of a bundle, [Join] joins the files into a [Store],
// and [Store.Get] answers the one question that a decision asks: what is this
// entity, and what is it a member of, at this instant?
//
//	held, faults := entities.Decode("entities/people.json", data)
//	store, faults := entities.Join([][]entities.Held{held}, nil)
//	ann, ok := store.Get(types.NewEntityUID("User", "ann"), now)
//
// # The file
//
// A file is a JSON array (RFC 8259) of entities in Cedar's entity form, and
// each entity may say when it is valid:
//
//	[
//	  {"uid": {"type": "Group", "id": "directors"}, "attrs": {}, "parents": []},
//	  {"uid": {"type": "User", "id": "ann"},
//	   "attrs": {"tenant": "acme", "limit": {"__extn": {"fn": "decimal", "arg": "5000.00"}}},
//	   "parents": [{"type": "Group", "id": "directors", "valid": {"until": "2027-01-01T00:00:00Z"}}],
//	   "valid": {"from": "2026-01-01T00:00:00Z"}}
//	]
//
// uid, attrs and parents are required; tags and valid are optional. A uid and
// a parent may also be written {"__entity": {"type": …, "id": …}}. Values are
// text, Longs (64-bit integers), booleans, arrays (sets), objects (records),
// {"__entity": {"type": …, "id": …}} and {"__extn": {"fn": …, "arg": …}} with
// decimal, datetime, duration or ip.
//
// The decoder is strict, because what it let pass in silence would change who
// may do what: an unknown member ("parent" for "parents"), a repeated name, a
// null, 1.0 where Cedar has only Longs, an object that mixes __entity with
// other members, a type that is no Cedar name: each is a fault with its line
// and column. All faults of a file are reported, up to [MaxFaults]; only text
// that is no JSON ends the reading at once. A file with a fault yields no
// entity.
//
// Limits: [MaxFile] bytes a file, [MaxDepth] levels of nesting, [MaxElements]
// elements in a set and parents of an entity, [MaxID] bytes in an id, a type
// or an attribute's name, no set inside a set (cedar-go hashes a set as the
// sum of its elements: 1,024 colliding ones take 86 ms, each time), and
// [MaxAncestors] ancestors of an entity.
//
// # Changes
//
// A bundle is read again whenever one of its files changes. What [Join] made
// before, it takes over: of a million entities in a thousand files, only those
// of the changed files are looked at, and those whose ancestors changed.
//
// # Windows
//
// A window holds from its From (included) until its Until (excluded). At an
// instant outside its own window an entity is absent: it has no attributes,
// it is nobody's parent, and nothing is reached through it. At an instant
// outside a membership's window the membership isn't there. So a person is in
// a group exactly when some chain of memberships leads there, each of them
// valid at that instant, through entities that are all valid at that instant.
// One parent may be named several times with different windows (a rota); to
// name it with and without a window is a fault, because then the window would
// mean nothing.
//
// # Parents that nobody declares
//
// A parent needs no entry of its own: an undeclared group is a parent like
// another, and a policy may name it. But a mistyped group would drop a
// membership in silence, so [Join] reports each undeclared parent once, as a
// warning, with the nearest declared id.
package entities
