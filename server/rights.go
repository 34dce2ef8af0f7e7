package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/policy"
)

// right is what the door itself must know of a method. Who may call it is said by
// the policies of the bundle in force.
type right struct {
	open bool // anyone, without a credential
	// shared: everyone who may call anything. These are no methods of writ.v1, so
	// that no policy names them.
	shared bool
	// judged: what a revoked caller brings is judged all the same, and denied by
	// a decision that is recorded.
	judged bool
	long   bool // a stream that lives on: no deadline, ends when the server drains
	cost   int  // of the caller's rate, where it is more than one call's
}

// rights is the one table of methods, by exact full name. A method that is not in
// it may be called by nobody, and keeps the server from starting.
var rights = map[string]right{
	"/writ.v1.DecisionService/Decide":      {judged: true},
	"/writ.v1.DecisionService/DecideBatch": {judged: true},
	// An explanation looks at every policy, is recorded whole, and is for people to read.
	"/writ.v1.DecisionService/Explain": {cost: 20},

	"/writ.v1.EnforcementService/Redeem":       {},
	"/writ.v1.EnforcementService/VerifyEffect": {},
	"/writ.v1.EnforcementService/GetKeys":      {},

	"/writ.v1.ApprovalService/ListReviews":  {cost: 20},
	"/writ.v1.ApprovalService/GetReview":    {},
	"/writ.v1.ApprovalService/WatchReviews": {long: true},
	"/writ.v1.ApprovalService/Approve":      {},
	"/writ.v1.ApprovalService/Reject":       {},

	"/writ.v1.RevocationService/Revoke":           {},
	"/writ.v1.RevocationService/ListRevocations":  {cost: 20},
	"/writ.v1.RevocationService/WatchRevocations": {long: true},

	"/writ.v1.AuditService/WatchDecisions":      {long: true},
	"/writ.v1.AuditService/GetInclusionProof":   {},
	"/writ.v1.AuditService/GetConsistencyProof": {},

	"/grpc.health.v1.Health/Check": {open: true},
	"/grpc.health.v1.Health/List":  {open: true},
	"/grpc.health.v1.Health/Watch": {open: true, long: true},

	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      {shared: true, long: true},
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": {shared: true, long: true},
}

// Offers reports whether there is a method of this full name, such as
// /writ.v1.DecisionService/Decide. Other names are strangers' text.
func Offers(method string) bool {
	_, known := rights[method]
	return known
}

// apiPackage starts the full names of the methods that policies speak of.
const apiPackage = "/writ.v1."

// allows reports whether a caller may call a method now, which has this right.
func (s *Server) allows(caller *writ.Caller, method string, r right) bool {
	if r.shared {
		return slices.ContainsFunc(policy.Methods[:], func(m policy.Method) bool { return s.may(caller, m.Name) })
	}
	return strings.HasPrefix(method, apiPackage) && s.may(caller, method[strings.LastIndexByte(method, '/')+1:])
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
			if !r.open && !r.shared && !slices.ContainsFunc(policy.Methods[:], func(p policy.Method) bool { return full == apiPackage+p.Service+"/"+p.Name }) {
				return fmt.Errorf("server: no policy can speak of method %s: add it to policy.Methods", full)
			}
			if streams := m.IsClientStream || m.IsServerStream; streams != r.long {
				return fmt.Errorf("server: method %s is a stream: %t, but the table of rights says %t", full, streams, r.long)
			}
		}
	}
	return nil
}
