package ocsf

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/writ-pdp/writ/audit"
)

// writName stands for Writ where the class wants a product, an API or a caller.
const writName = "Writ"

// begin returns what all events have.
func begin(r *record) *event {
	index := strconv.FormatUint(r.Index, 10)
	e := &event{
		Time: r.Record.Time.AsTime().UnixMilli(), CategoryUID: categoryUID, CategoryName: categoryName, ClassUID: classUID, ClassName: className,
		Actor: actor{AppName: source(r)}, SrcEndpoint: endpoint{source(r)},
		Metadata: metadata{
			Version: Version, UID: cmp.Or(r.Id, r.Kind+"-"+index), OriginalEventUID: index, Sequence: int64(r.Index), CorrelationUID: r.TraceId,
			EventCode: r.Kind, OriginalTime: r.time, LogName: "audit", LogProvider: writName, LogVersion: "1",
			Product: product{writName, writName},
		},
	}
	if r.TraceId != "" {
		e.Metadata.Profiles = []string{profileTrace}
		e.Trace = &named{r.TraceId}
	}
	r.placed("caller")
	return e
}

// source is who sent the call; without a caller Writ acted by itself.
func source(r *record) string { return cmp.Or(r.Caller, writName) }

// activity sets the activity, and the type that follows from it.
func (e *event) activity(id int, name string) {
	e.ActivityID, e.ActivityName = id, name
	caption := name
	if id == other {
		caption = "Other"
	}
	e.TypeUID, e.TypeName = classUID*100+id, className+": "+caption
}

func (e *event) severity(id int) { e.SeverityID, e.Severity = id, severities[id] }

func (e *event) status(id int) { e.StatusID, e.Status = id, statuses[id] }

// ours makes it an event of Writ itself that went well.
func (e *event) ours(what string) {
	e.activity(other, what)
	e.severity(informational)
	e.status(success)
	e.API = api{Operation: what, Service: &service{writName}}
}

// revocation fills in that something was withdrawn, or given back. Who says so
// and why is text for people: it stays in unmapped.
func (e *event) revocation(r *record) {
	v := r.Revoked
	e.ours("Revoke")
	e.Message = "Revoked "
	if v.Lift {
		e.ours("Lift")
		e.Message = "Lifted the revocation of "
	}
	e.Message += strings.TrimSpace(v.Kind + " " + v.Id)
	if v.Reason != "" {
		e.Message += ": " + v.Reason
	}
	if v.Id != "" {
		e.Resources = []*resource{{UID: v.Id, Type: v.Kind, Namespace: v.Issuer, RoleID: roleTarget, Role: roles[roleTarget]}}
	}
}

// reload fills in that a bundle was put in force, or refused.
func (e *event) reload(r *record) {
	e.ours("Reload")
	e.Message = "Put a bundle in force: " + r.Revision
	if len(r.Faults) > 0 {
		e.severity(medium)
		e.status(failure)
		e.StatusDetail = strings.Join(r.Faults, "\n")
		e.Message = fmt.Sprintf("Refused a bundle with %d faults; %s stays in force", len(r.Faults), cmp.Or(r.Revision, "nothing"))
		r.placed("faults")
	}
}

// process fills in that the server started or stopped.
func (e *event) process(r *record) {
	if audit.Kind(r.Kind) == audit.KindStart {
		e.ours("Start")
		e.Message = "Started to answer"
	} else {
		e.ours("Stop")
		e.Message = "Stopped in good order"
	}
	if r.Revision != "" {
		e.Message += " with " + r.Revision
	}
}
