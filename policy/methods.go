package policy

// Method is a method of the PDP's own API, which is an action: whoever calls it
// has Action::"pdp:NAME".
type Method struct {
	Service string // without its package: "DecisionService"
	Name    string // "Decide"; no two services share one
	// OfServer: the resource is the Server that the call is about. That of any
	// other method is its Service.
	OfServer bool
}

// Methods are the methods of writ.v1, by service. What is not here may be called
// by nobody.
var Methods = [...]Method{
	{Service: "DecisionService", Name: "Decide"},
	{Service: "DecisionService", Name: "DecideBatch"},
	{Service: "DecisionService", Name: "Explain"},
	{Service: "EnforcementService", Name: "Redeem", OfServer: true},
	{Service: "EnforcementService", Name: "VerifyEffect", OfServer: true},
	{Service: "EnforcementService", Name: "GetKeys"},
	{Service: "ApprovalService", Name: "ListReviews"},
	{Service: "ApprovalService", Name: "GetReview"},
	{Service: "ApprovalService", Name: "WatchReviews"},
	{Service: "ApprovalService", Name: "Approve"},
	{Service: "ApprovalService", Name: "Reject"},
	{Service: "RevocationService", Name: "Revoke"},
	{Service: "RevocationService", Name: "ListRevocations"},
	{Service: "RevocationService", Name: "WatchRevocations"},
	{Service: "AuditService", Name: "WatchDecisions"},
	{Service: "AuditService", Name: "GetInclusionProof"},
	{Service: "AuditService", Name: "GetConsistencyProof"},
}
