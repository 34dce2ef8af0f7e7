package policy

import (
	"fmt"
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
)

// Whether an entity that a policy names is there is all that a policy's checks
// ask of other policies and of the bundle's entities. So it is asked apart from
// the rest, which stays true of a policy as long as the schema does.

// namedEntity is an entity that a policy names, of a type whose entities the
// bundle or the policies hold, or may hold.
type namedEntity struct {
	uid    types.EntityUID
	offset int // in the file
}

// census is what is known of the entities that policies may name.
type census struct {
	known    EntitySet
	policies map[string]bool // every @id of the bundle
	// incomplete says that there are more, which couldn't be read.
	incomplete bool
	ids        []string // of policies, sorted; made by policyIDs
	near       map[types.EntityUID]string
	compared   int // names, for suggestions
}

// absent says that a policy names an entity that isn't there, if so.
func (c *compiler) absent(e *entry, n namedEntity) (f writ.Fault, absent bool) {
	s, uid := c.schema, n.uid
	if c.census.known.Has(uid) || uid.Type == typePolicy && c.census.policies[string(uid.ID)] {
		return f, false
	}
	ids, complete := c.idsOf(uid.Type, e.policy.AboutRights())
	if !complete || slices.Contains(ids, string(uid.ID)) {
		return f, false
	}
	supplied := s.supplied[uid.Type]
	f = faultAt(e.source, n.offset, fmt.Sprintf("there is no %s", uid))
	if enum, ok := s.whole.Enums[uid.Type]; ok {
		f.Message = fmt.Sprintf("%s is not one of %s", uid, enumValues(enum))
	} else if supplied {
		f.Severity = writ.Warning
		f.Message = fmt.Sprintf("the bundle holds no %s, though an issuer may supply it", uid)
		if e.policy.AboutApproval() {
			f.Message = fmt.Sprintf("the bundle holds no %s, and approvers are in no group that it doesn't put them into", uid)
		}
	}
	if near := c.census.nearest(uid, ids); near != "" {
		f.Message += fmt.Sprintf("; did you mean %s?", types.NewEntityUID(uid.Type, types.String(near)))
	} else if uid.Type == typePolicy {
		f.Message += ": no policy has this @id"
	} else if uid.Type == typeCaller {
		f.Message += ": add it to callers.yaml, or name one that is there"
	} else if !supplied && !reservedEntity(uid.Type) {
		f.Message += ": add it to entities/, or name one that the bundle holds"
	}
	return f, true
}

// maxComparisons bounds how many names are compared for suggestions while one
// bundle loads: a bundle that lost its entities must not take minutes to say so.
const maxComparisons = 2_000_000

// nearest suggests one of ids, which are all of uid's type.
func (c *census) nearest(uid types.EntityUID, ids []string) string {
	if near, ok := c.near[uid]; ok {
		return near
	}
	near := ""
	if c.compared += len(ids); c.compared <= maxComparisons {
		near = nearest(string(uid.ID), ids)
	}
	if c.near == nil {
		c.near = map[types.EntityUID]string{}
	}
	c.near[uid] = near
	return near
}

// idsOf lists the ids of all entities of a type. complete is false when others
// may exist. ofRights: as policies about callers name them.
func (c *compiler) idsOf(t types.EntityType, ofRights bool) (ids []string, complete bool) {
	switch t {
	case typePolicy:
		return c.census.policyIDs(), !c.census.incomplete
	case typeSource:
		for _, kind := range writ.SourceKinds {
			ids = append(ids, string(kind))
		}
		if ofRights {
			ids = append(ids, string(writ.SourceToken))
		}
	case typeRole:
		for _, r := range roles {
			ids = append(ids, string(r))
		}
	case typeService:
		for _, m := range Methods {
			ids = append(ids, m.Service)
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
	case typeTool, typeServer:
		for uid := range c.schema.static {
			if uid.Type == t {
				ids = append(ids, string(uid.ID))
			}
		}
	case typeCaller:
		ids = c.census.known.IDs(t)
		return ids, len(ids) > 0
	default:
		enum, ok := c.schema.whole.Enums[t]
		if !ok {
			return c.census.known.IDs(t), true
		}
		for _, uid := range enum.Values {
			ids = append(ids, string(uid.ID))
		}
	}
	slices.Sort(ids)
	return ids, true
}

func (c *census) policyIDs() []string {
	if c.ids == nil {
		for id := range c.policies {
			c.ids = append(c.ids, id)
		}
		slices.Sort(c.ids)
	}
	return c.ids
}
