package ocsf

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/writ-pdp/writ"
)

// decision fills in what an answer to a proposal says.
func (e *event) decision(r *record) error {
	activity, name, err := activityOf(writ.Effect(r.Effect))
	if err != nil {
		return err
	}
	e.activity(activity, name)
	if err := e.control(r); err != nil {
		return err
	}
	e.Message = answer(r)
	e.asker(r)
	e.authorizations(r)
	e.call(r)
	e.about(r, roleTarget)
	r.placed("outcome", "code", "explanation", "server", "tool")
	return nil
}

// answered fills in what was answered to who came with a grant, an approval or
// an effect: events of Writ's own API, so that who counts calls to a server
// counts each once, as it was decided.
func (e *event) answered(r *record, operation, what string) error {
	if _, _, err := activityOf(writ.Effect(r.Effect)); err != nil {
		return err
	}
	e.ours(operation)
	if err := e.control(r); err != nil {
		return err
	}
	e.Message = what + ": " + answer(r)
	e.asker(r)
	e.API.Response = &response{Message: r.Explanation}
	if r.Outcome != writ.Allow.String() {
		e.API.Response = &response{Error: r.Code, ErrorMessage: r.Explanation}
	}
	if r.RequestId != "" {
		e.API.Request = &request{UID: r.RequestId}
		r.placed("request_id")
	}
	e.about(r, roleTarget)
	r.placed("outcome", "code", "explanation")
	return nil
}

// control fills in what the answer says of whoever asked: allowed or not.
func (e *event) control(r *record) error {
	e.Metadata.Profiles = append([]string{profileControl}, e.Metadata.Profiles...)
	switch r.Outcome {
	case writ.Allow.String():
		e.severity(informational)
		e.status(success)
		e.ActionID, e.Action = allowed, actions[allowed]
		e.DispositionID, e.Disposition = dispositionAllowed, dispositions[dispositionAllowed]
	case writ.ReviewRequired.String():
		const review = "Review required"
		e.severity(low)
		e.StatusID, e.Status = other, review
		e.ActionID, e.Action = other, review
		e.DispositionID, e.Disposition = other, review
	case writ.Deny.String():
		refused, ok := refusals[writ.Control(r.Control)]
		if !ok {
			return fmt.Errorf("it was denied by an unknown control %q", r.Control)
		}
		e.severity(refused.severity)
		e.status(failure)
		e.ActionID, e.Action = denied, actions[denied]
		e.DispositionID, e.Disposition = refused.disposition, dispositions[refused.disposition]
	default:
		return fmt.Errorf("unknown outcome %q", r.Outcome)
	}
	e.StatusCode, e.StatusDetail = r.Code, r.Explanation
	return nil
}

// explanation fills in what a call would be answered, and why: that nobody
// tried anything.
func (e *event) explanation(r *record) error {
	if _, _, err := activityOf(writ.Effect(r.Effect)); err != nil {
		return err
	}
	switch r.Outcome {
	case writ.Allow.String(), writ.Deny.String(), writ.ReviewRequired.String():
	default:
		return fmt.Errorf("unknown outcome %q", r.Outcome)
	}
	e.ours("Explain")
	e.Message = "Explained: " + answer(r)
	e.asker(r)
	if r.RequestId != "" {
		e.API.Request = &request{UID: r.RequestId}
		r.placed("request_id")
	}
	e.about(r, roleRelated)
	return nil
}

// activityOf returns the activity of a tool with this effect. OCSF knows no
// activity that is any change, and none that changes and reads nothing.
func activityOf(effect writ.Effect) (id int, name string, err error) {
	switch effect {
	case writ.Read:
		return activityRead, "Read", nil
	case writ.Write:
		return other, "Write", nil
	case writ.Pure:
		return other, "Compute", nil
	case "": // the call did not come as far as its contract
		return activityUnknown, "Unknown", nil
	default:
		return 0, "", fmt.Errorf("unknown effect %q", string(effect))
	}
}

// answer says in one line what was answered to whom.
func answer(r *record) string {
	text := r.Outcome
	if r.Code != r.Outcome {
		text += " " + r.Code
	}
	text += fmt.Sprintf(": %s/%s", cmp.Or(r.Server, "?"), cmp.Or(r.Tool, "?"))
	if who := r.Principal; who != "" {
		text += " for " + who
	} else if r.Subject != "" {
		text += " for " + r.Subject + " (claimed)"
	}
	return text + " by " + source(r)
}

// asker says who asks, and for whom. A user without uid is only claimed.
func (e *event) asker(r *record) {
	if r.Principal != "" || r.Subject != "" {
		u := &user{UID: r.Principal, Name: r.Subject}
		if r.Tenant != "" {
			u.Org = &named{r.Tenant}
		}
		e.Actor.User = u
		r.placed("principal", "subject", "tenant")
	}
	if r.Issuer != "" {
		e.Actor.IDP = &idp{UID: r.Issuer, Issuer: r.Issuer}
		r.placed("issuer")
	}
}

// authorizations says what was decided, once for each policy that decided.
func (e *event) authorizations(r *record) {
	for _, id := range r.Policies {
		if id != "" {
			e.Actor.Authorizations = append(e.Actor.Authorizations, authorization{r.Outcome, &policy{id, true}})
		}
	}
	switch list := e.Actor.Authorizations; len(list) {
	case 0:
		e.Actor.Authorizations = []authorization{{Decision: r.Outcome}}
	case 1:
		e.Policy = list[0].Policy
	}
	r.placed("policies")
}

// call says what was to be called, and what was answered in its place.
func (e *event) call(r *record) {
	// A proposal that can't be read names no tool, and the class wants one.
	e.API = api{Operation: cmp.Or(r.Tool, "Unknown"), Response: &response{Message: r.Explanation}}
	if r.Server != "" {
		e.API.Service = &service{r.Server}
	}
	if r.Outcome != writ.Allow.String() {
		e.API.Response = &response{Error: r.Code, ErrorMessage: r.Explanation}
	}
	if r.RequestId == "" {
		return // the class wants it of a request
	}
	e.API.Request = &request{UID: r.RequestId}
	for pointer, text := range r.Arguments {
		if e.API.Request.Data == nil {
			e.API.Request.Data = map[string]json.RawMessage{}
		}
		value := json.RawMessage(text)
		if !json.Valid(value) {
			value, _ = json.Marshal(text) // a string always has a form
		}
		e.API.Request.Data[pointer] = value
	}
	r.placed("request_id", "arguments")
}

// about says what the call is about, and through whom it came.
func (e *event) about(r *record, role int) {
	add := func(list []string, role int) {
		for _, text := range list {
			if text != "" { // a target that was not found out says nothing
				e.Resources = append(e.Resources, entity(text, role))
			}
		}
	}
	add(r.Resources, role)
	add(r.Actors, roleActor)
	r.placed("resources", "actors")
}
