package story

// ParsePayment is for tests.
var ParsePayment = parsePayment
