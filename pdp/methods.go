package pdp

// The methods whose rights are asked for here, beside those that let a call in.
const (
	methodDecide       = "Decide"
	methodRedeem       = "Redeem"
	methodVerifyEffect = "VerifyEffect"
	methodApprove      = "Approve"
	methodReject       = "Reject"
)
