// Package contract turns what a reviewer declares about an MCP server, and the
// server's tool definitions, into contracts: how a call of each tool is
// checked, what it is aimed at, and how policies see its arguments.
//
// [New] checks a [Declaration] against the definitions and reports every fault
// at once. It fails closed: a tool that nobody reviewed has no contract, an
// argument that policies could not see exactly is a fault until the reviewer
// calls it opaque, and an effect is never guessed.
//
// # Naming an argument
//
// A review names an argument by the members that lead to it: amount,
// filter.query, paths[] (each element of paths), items[].path (the member path
// of each element of items). Members may have any name; a name that can be
// read in two ways is a fault. Nothing inside an opaque argument has a name.
//
// # Defaults
//
// Declaration.Defaults lies under every tool's review. What the tool's own
// review says replaces it; opaque, loggable and secret names add up; arguments,
// when_absent and evidence merge name by name. Where the defaults call loggable
// what the tool's own review calls secret, it is secret. Names in the defaults that a tool lacks are
// ignored for that tool; names in a tool's own review that it lacks are faults.
//
// # Types
//
//	JSON Schema                                   Cedar
//	string; enum or const of strings              String, or the entity type that the review names
//	integer; number that the review calls long    Long
//	number                                        decimal
//	boolean                                       Bool
//	object with properties                        record; optional members stay optional
//	array of scalars                              Set
//	array of records, every member required       Set of records
//	[T, "null"]                                   T; an explicit null is refused
//	acyclic $ref into $defs or definitions        inlined
//
// Everything else is unsettled: other type arrays, a missing type, free-form
// objects, oneOf, anyOf, allOf, not, if, recursion, tuples, untyped items, and
// sets inside sets. An unsettled argument must be opaque: policies don't see
// it, and it is still validated as JSON Schema. At the root of an input schema
// such keywords only narrow what properties declares, so they are allowed there.
//
// # Validation
//
// [Contract.Validate] refuses members that the schema does not declare whatever
// additionalProperties says (unless the contract allows them at the top), names
// that fold to a declared one ([canon.Fold]), explicit nulls, and sets of more
// than [MaxSet] elements. Then the whole input schema is enforced, in JSON
// Schema 2020-12 or the dialect that $schema names, by
// github.com/santhosh-tekuri/jsonschema/v6. Nothing is ever loaded: a $ref out
// of the schema is a fault. Formats that the library knows are asserted; by the
// specification, one that it does not know asserts nothing. Patterns are RE2.
//
// Each call has a budget of [MaxVisits] schema visits, charged before each
// visit; long strings, large objects and expensive patterns cost several. A
// call that exhausts it is refused.
//
// # Digest
//
// Contract.Digest covers the definition and everything declared that can change
// a decision. It is computed from the effective values, so that a default
// spelled out is no change. Texts for people only (owner, provenance, the
// reason for having no evidence) and how a local server is started (package,
// command: its identity is the package hash) are left out.
package contract
