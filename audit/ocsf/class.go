package ocsf

import "github.com/writ-pdp/writ"

// The class, as OCSF names it.
const (
	categoryUID  = 6
	categoryName = "Application Activity"
	classUID     = 6003
	className    = "API Activity"
)

// other is the member "not mapped" of each enumeration: the text beside it is
// Writ's own.
const other = 99

// Activities.
const (
	activityUnknown = 0
	activityRead    = 2
)

// Profiles.
const (
	profileControl = "security_control"
	profileTrace   = "trace"
)

// Severities.
const (
	informational = 1 // no action required
	low           = 2 // the user decides if action is needed
	medium        = 3 // action is required, but the situation is not serious
)

var severities = [...]string{informational: "Informational", low: "Low", medium: "Medium"}

// Statuses.
const (
	success = 1
	failure = 2
)

var statuses = [...]string{success: "Success", failure: "Failure"}

// Actions of the profile security_control.
const (
	allowed = 1
	denied  = 2
)

var actions = [...]string{allowed: "Allowed", denied: "Denied"}

// Dispositions of the profile security_control.
const (
	dispositionAllowed      = 1
	dispositionBlocked      = 2
	dispositionRejected     = 25 // the request itself is wrong
	dispositionUnauthorized = 26 // an authorization check failed
)

var dispositions = map[int]string{
	dispositionAllowed: "Allowed", dispositionBlocked: "Blocked", dispositionRejected: "Rejected", dispositionUnauthorized: "Unauthorized",
}

// Roles of resources.
const (
	roleTarget  = 1
	roleActor   = 2
	roleRelated = 4
)

var roles = [...]string{roleTarget: "Target", roleActor: "Actor", roleRelated: "Related"}

// refusal is what a DENY of a control is.
type refusal struct{ severity, disposition int }

// refusals has every control. What an honest host and user come by in the
// course of a day is low; what somebody should look into is medium.
var refusals = map[writ.Control]refusal{
	writ.ControlFreshness:    {medium, dispositionBlocked},
	writ.ControlProposal:     {low, dispositionRejected},
	writ.ControlRegistration: {medium, dispositionUnauthorized},
	writ.ControlToken:        {medium, dispositionUnauthorized},
	writ.ControlRevocation:   {medium, dispositionUnauthorized},
	writ.ControlArguments:    {low, dispositionRejected},
	writ.ControlTarget:       {medium, dispositionUnauthorized},
	writ.ControlDataFlow:     {medium, dispositionUnauthorized},
	writ.ControlPolicy:       {low, dispositionUnauthorized},
	writ.ControlApproval:     {medium, dispositionUnauthorized},
	writ.ControlGrant:        {medium, dispositionUnauthorized},
	writ.ControlEffect:       {medium, dispositionRejected},
	writ.ControlAudit:        {medium, dispositionBlocked},
}
