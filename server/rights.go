package server

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc"

	"github.com/writ-pdp/writ"
)

// right says who may call one method.
type right struct {
	open  bool        // anyone, without a credential
	roles []writ.Role // otherwise: callers with one of these
	// judged: what a revoked caller brings is judged all the same, and denied by
	// a decision that is recorded.
	judged bool
	long   bool // a stream that lives on: no deadline, ends when the server drains
}

// rights is the one table of who may call what, by exact full method name. A
// method that is not in it may be called by nobody, and keeps the server from
// starting.
var rights = map[string]right{
	"/writ.v1.DecisionService/Decide":      {roles: []writ.Role{writ.RoleHost}, judged: true},
	"/writ.v1.DecisionService/DecideBatch": {roles: []writ.Role{writ.RoleHost}, judged: true},
	// An explanation tells of policies and entities: it is an operator's.
	"/writ.v1.DecisionService/Explain": {roles: []writ.Role{writ.RoleOperator}},

	"/writ.v1.RevocationService/Revoke":           {roles: []writ.Role{writ.RoleOperator}},
	"/writ.v1.RevocationService/ListRevocations":  {roles: []writ.Role{writ.RoleOperator}},
	"/writ.v1.RevocationService/WatchRevocations": {roles: []writ.Role{writ.RoleOperator}, long: true},

	// Records tell who did what.
	"/writ.v1.AuditService/WatchDecisions":      {roles: []writ.Role{writ.RoleOperator}, long: true},
	"/writ.v1.AuditService/GetInclusionProof":   {roles: []writ.Role{writ.RoleOperator}},
	"/writ.v1.AuditService/GetConsistencyProof": {roles: []writ.Role{writ.RoleOperator}},

	"/grpc.health.v1.Health/Check": {open: true},
	"/grpc.health.v1.Health/List":  {open: true},
	"/grpc.health.v1.Health/Watch": {open: true, long: true},

	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      {roles: everyRole, long: true},
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": {roles: everyRole, long: true},
}

// Offers reports whether there is a method of this full name, such as
// /writ.v1.DecisionService/Decide. Other names are strangers' text.
func Offers(method string) bool {
	_, known := rights[method]
	return known
}

var everyRole = []writ.Role{writ.RoleHost, writ.RoleServer, writ.RoleApprover, writ.RoleOperator}

// allows reports whether c has the right.
func (r right) allows(c *writ.Caller) bool {
	return r.open || c != nil && slices.ContainsFunc(r.roles, c.Has)
}

// checkRights refuses a server with a method that the table forgot, or that
// streams where the table says it does not.
func checkRights(services map[string]grpc.ServiceInfo) error {
	for _, name := range slices.Sorted(maps.Keys(services)) {
		for _, m := range services[name].Methods {
			full := "/" + name + "/" + m.Name
			r, ok := rights[full]
			if !ok {
				return fmt.Errorf("server: no right is declared for method %s: add it to the table of rights", full)
			}
			if streams := m.IsClientStream || m.IsServerStream; streams != r.long {
				return fmt.Errorf("server: method %s is a stream: %t, but the table of rights says %t", full, streams, r.long)
			}
		}
	}
	return nil
}
