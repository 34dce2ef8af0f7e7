package ocsf

import "encoding/json"

// event is an event of the class API Activity, as far as records fill it. The
// order is that of the JSON.
type event struct {
	Time         int64  `json:"time"` // milliseconds since 1970
	CategoryUID  int    `json:"category_uid"`
	CategoryName string `json:"category_name"`
	ClassUID     int    `json:"class_uid"`
	ClassName    string `json:"class_name"`
	ActivityID   int    `json:"activity_id"`
	ActivityName string `json:"activity_name"`
	TypeUID      int    `json:"type_uid"`
	TypeName     string `json:"type_name"`
	SeverityID   int    `json:"severity_id"`
	Severity     string `json:"severity"`
	StatusID     int    `json:"status_id"`
	Status       string `json:"status"`
	StatusCode   string `json:"status_code,omitempty"`
	StatusDetail string `json:"status_detail,omitempty"`
	Message      string `json:"message"`

	// Of the profile security_control.
	ActionID      int     `json:"action_id,omitempty"`
	Action        string  `json:"action,omitempty"`
	DispositionID int     `json:"disposition_id,omitempty"`
	Disposition   string  `json:"disposition,omitempty"`
	Policy        *policy `json:"policy,omitempty"`

	Actor       actor                      `json:"actor"`
	API         api                        `json:"api"`
	SrcEndpoint endpoint                   `json:"src_endpoint"`
	Resources   []*resource                `json:"resources,omitempty"`
	Trace       *named                     `json:"trace,omitempty"` // of the profile trace
	Metadata    metadata                   `json:"metadata"`
	Unmapped    map[string]json.RawMessage `json:"unmapped,omitempty"`
}

type actor struct {
	User           *user           `json:"user,omitempty"`
	IDP            *idp            `json:"idp,omitempty"`
	AppName        string          `json:"app_name"`
	Authorizations []authorization `json:"authorizations,omitempty"`
}

type user struct {
	UID  string `json:"uid,omitempty"`
	Name string `json:"name,omitempty"`
	Org  *named `json:"org,omitempty"`
}

// named is an object of which only its identifier is known.
type named struct {
	UID string `json:"uid"`
}

type idp struct {
	UID    string `json:"uid"`
	Issuer string `json:"issuer"`
}

type authorization struct {
	Decision string  `json:"decision"`
	Policy   *policy `json:"policy,omitempty"`
}

type policy struct {
	UID       string `json:"uid"`
	IsApplied bool   `json:"is_applied"`
}

type api struct {
	Operation string    `json:"operation"`
	Service   *service  `json:"service,omitempty"`
	Request   *request  `json:"request,omitempty"`
	Response  *response `json:"response,omitempty"`
}

type service struct {
	Name string `json:"name"`
}

type request struct {
	UID  string                     `json:"uid"`
	Data map[string]json.RawMessage `json:"data,omitempty"`
}

type response struct {
	Error        string `json:"error,omitempty"`
	ErrorMessage string `json:"error_message,omitempty"`
	Message      string `json:"message,omitempty"`
}

type endpoint struct {
	Name string `json:"name"`
}

type resource struct {
	UID       string `json:"uid"`
	Name      string `json:"name,omitempty"`
	Type      string `json:"type,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	RoleID    int    `json:"role_id"`
	Role      string `json:"role"`
}

type metadata struct {
	Version          string   `json:"version"`
	Profiles         []string `json:"profiles,omitempty"`
	UID              string   `json:"uid"`
	OriginalEventUID string   `json:"original_event_uid"`
	Sequence         int64    `json:"sequence"`
	CorrelationUID   string   `json:"correlation_uid,omitempty"`
	EventCode        string   `json:"event_code"`
	OriginalTime     string   `json:"original_time"`
	LogName          string   `json:"log_name"`
	LogProvider      string   `json:"log_provider"`
	LogVersion       string   `json:"log_version"`
	Product          product  `json:"product"`
}

type product struct {
	Name       string `json:"name"`
	VendorName string `json:"vendor_name"`
}
