package otlplog

import (
	"fmt"
	"net/url"
	"os"
	"strings"
)

// Wanted reports whether the environment asks for records to be sent. What the
// exporter would take for something else, or for nothing, is an error.
func Wanted() (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	endpointName, endpoint := setting("ENDPOINT")
	switch which := os.Getenv("OTEL_LOGS_EXPORTER"); {
	case which == "none", which == "" && endpoint == "":
		return false, nil
	case which != "" && which != "otlp":
		return false, fmt.Errorf("otlplog: OTEL_LOGS_EXPORTER is %q: this server knows otlp and none", which)
	}
	if name, protocol := setting("PROTOCOL"); protocol != "" && protocol != "grpc" {
		return false, fmt.Errorf("otlplog: %s is %q: this server speaks grpc", name, protocol)
	}
	if endpoint == "" {
		return true, nil
	}
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false, fmt.Errorf("otlplog: %s is no http://HOST:PORT or https://HOST:PORT", endpointName)
	}
	return true, nil
}

// setting returns what the environment says for logs, or else for all signals
// (OpenTelemetry, "OTLP exporter configuration"); the name, too, for messages.
func setting(what string) (name, value string) {
	for _, name = range []string{"OTEL_EXPORTER_OTLP_LOGS_" + what, "OTEL_EXPORTER_OTLP_" + what} {
		if value = os.Getenv(name); value != "" {
			return name, value
		}
	}
	return "", ""
}
