package contract

import (
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/target"
)

// Entity types that are made from arguments alone, never held by a bundle.
const (
	PathType  types.EntityType = "Path"
	HostType  types.EntityType = "Host"
	URLType   types.EntityType = "Url"
	EmailType types.EntityType = "Email"
)

// reservedTypes are Writ's own entity types, which no bundle holds.
var reservedTypes = [...]types.EntityType{
	PathType, HostType, URLType, EmailType, "Tool", "Server", "Caller", "Policy", "Source", "Action",
}

// badEntityType says why name is no entity type of a bundle, or nothing.
func badEntityType(name string) string {
	if _, err := types.NewEntityType(name); err != nil {
		return "it is no Cedar entity type: write one like Repository or Acme::Repository"
	}
	if slices.Contains(reservedTypes[:], types.EntityType(name)) {
		return "it is one of Writ's own types: name an entity type of the bundle"
	}
	return ""
}

// NewEntity returns the entity that text names, for a type of Kind Entity: a
// Path, Host, Url or Email with its attributes and all its ancestors as
// parents, or the bare identity of an entity of the bundle. The failure is
// TARGET_OUT_OF_BOUNDS and has no pointer.
func (t *Type) NewEntity(text string) (types.Entity, *Failure) {
	if t.Kind != Entity {
		return types.Entity{}, outOfBounds("", "it names no entity")
	}
	if t.Role != nil {
		return newBuiltIn(t.Entity, text, pathOptions(t.Role))
	}
	if text == "" {
		return types.Entity{}, outOfBounds("", "it is empty")
	}
	if t.Fold {
		text = foldASCII(text)
	}
	return types.Entity{UID: types.NewEntityUID(t.Entity, types.String(text))}, nil
}

func pathOptions(r *Resource) target.PathOptions {
	return target.PathOptions{Base: r.Base, Fold: r.Case == "insensitive"}
}

func outOfBounds(pointer, message string) *Failure {
	return &Failure{writ.CodeTargetOutOfBounds, pointer, message}
}

// newBuiltIn returns the Path, Host, Url or Email that text names.
func newBuiltIn(t types.EntityType, text string, o target.PathOptions) (types.Entity, *Failure) {
	var e types.Entity
	var err error
	switch t {
	case PathType:
		var p target.Path
		if p, err = target.NewPath(text, o); err == nil {
			e = pathEntity(p)
		}
	case HostType:
		var h target.Host
		if h, err = target.NewHost(text); err == nil {
			e = hostEntity(h)
		}
	case URLType:
		var u target.URL
		if u, err = target.NewURL(text); err == nil {
			e = urlEntity(u)
		}
	case EmailType:
		var m target.Email
		if m, err = target.NewEmail(text); err == nil {
			e = emailEntity(m)
		}
	default:
		return e, outOfBounds("", "it is read as no kind of target")
	}
	if err != nil {
		return types.Entity{}, outOfBounds("", err.Error())
	}
	return e, nil
}

func pathEntity(p target.Path) types.Entity {
	segments := make([]types.Value, len(p.Segments))
	for i, s := range p.Segments {
		segments[i] = types.String(s)
	}
	return builtIn(PathType, p.Text, types.RecordMap{
		"text":     types.String(p.Text),
		"name":     types.String(p.Name()),
		"segments": types.NewSet(segments...),
	}, uids(nil, PathType, p.Ancestors()))
}

func hostEntity(h target.Host) types.Entity {
	return builtIn(HostType, h.Text, types.RecordMap{
		"text": types.String(h.Text),
		"ip":   types.Boolean(h.IP),
	}, uids(nil, HostType, h.Ancestors()))
}

func urlEntity(u target.URL) types.Entity {
	host := types.NewEntityUID(HostType, types.String(u.Host.Text))
	return builtIn(URLType, u.Text, types.RecordMap{
		"text":   types.String(u.Text),
		"scheme": types.String(u.Scheme),
		"host":   host,
		"port":   types.Long(u.Port),
		"path":   types.String(u.Path),
	}, uids([]types.EntityUID{host}, HostType, u.Host.Ancestors()))
}

func emailEntity(m target.Email) types.Entity {
	host := types.NewEntityUID(HostType, types.String(m.Host.Text))
	return builtIn(EmailType, m.Text, types.RecordMap{
		"text":  types.String(m.Text),
		"local": types.String(m.Local),
		"host":  host,
	}, uids([]types.EntityUID{host}, HostType, m.Host.Ancestors()))
}

func builtIn(t types.EntityType, id string, attributes types.RecordMap, parents []types.EntityUID) types.Entity {
	return types.Entity{
		UID:        types.NewEntityUID(t, types.String(id)),
		Parents:    types.NewEntityUIDSet(parents...),
		Attributes: types.NewRecord(attributes),
	}
}

func uids(list []types.EntityUID, t types.EntityType, ids []string) []types.EntityUID {
	for _, id := range ids {
		list = append(list, types.NewEntityUID(t, types.String(id)))
	}
	return list
}
