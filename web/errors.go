package web

import (
	"errors"
	"net/http"

	"lomi/broker/control"
)

// ErrInvalid marks an error of a seam that is about what the person said; its
// text is shown.
var ErrInvalid = errors.New("invalid")

// Refusals of the door itself.
var (
	errNoLogin    = &apiError{http.StatusUnauthorized, "login_required", "This page is not logged in.", "Run lomi open and follow its link."}
	errBadLogin   = &apiError{http.StatusForbidden, "login_refused", "This login link was used already or is older than 2 minutes.", "Run lomi open for a new one."}
	errForeign    = &apiError{http.StatusForbidden, "foreign_request", "This request does not come from Lomi's own page.", ""}
	errNotJSON    = &apiError{http.StatusUnsupportedMediaType, "not_json", "The request's content type must be application/json.", ""}
	errTooLarge   = &apiError{http.StatusRequestEntityTooLarge, "too_large", "The request is larger than 1 MiB.", ""}
	errAdminOnly  = &apiError{http.StatusForbidden, "admin_only", "Only the command line can ask for this.", ""}
	errPageOnly   = &apiError{http.StatusForbidden, "page_only", "This can be decided in the page only.", "Open the page with lomi open."}
	errBusy       = &apiError{http.StatusServiceUnavailable, "busy", "Too many pages are open.", "Close one and reload."}
	errNoTerminal = &apiError{http.StatusNotFound, "not_found", "There is no such panel.", ""}
)

// apiError is an error whose text a person may read.
type apiError struct {
	status  int
	code    string
	message string
	hint    string
}

// Error implements error.
func (e *apiError) Error() string { return e.code + ": " + e.message }

func badRequest(message string) *apiError {
	return &apiError{http.StatusBadRequest, "bad_request", message, ""}
}

// statusOf maps the codes of the broker to HTTP. A code that is not listed is
// a conflict with the state of things: the request was understood.
var statusOf = map[control.Code]int{
	control.TargetNotFound:        http.StatusNotFound,
	control.ResourceExhausted:     http.StatusBadRequest,
	control.ScopeDenied:           http.StatusForbidden,
	control.PairingRequired:       http.StatusForbidden,
	control.ControlRevoked:        http.StatusForbidden,
	control.StorageUnavailable:    http.StatusServiceUnavailable,
	control.AppUnavailable:        http.StatusServiceUnavailable,
	control.AppClosing:            http.StatusServiceUnavailable,
	control.UINotReady:            http.StatusServiceUnavailable,
	control.DeadlineExceeded:      http.StatusGatewayTimeout,
	control.UnsupportedCapability: http.StatusNotImplemented,
	control.ArtifactTooLarge:      http.StatusRequestEntityTooLarge,
}

// public turns an error into what a person may read of it. The second result
// is false for an internal fault, whose text stays in the log.
func public(err error) (*apiError, bool) {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e, true
	}
	for _, row := range roomErrors {
		if errors.Is(err, row.is) {
			text := row.text
			if text == "" {
				text = err.Error()
			}
			return &apiError{row.status, row.code, text, row.hint}, true
		}
	}
	if e, ok := control.AsError(err); ok {
		status, listed := statusOf[e.Code]
		if !listed {
			status = http.StatusConflict
		}
		return &apiError{status, string(e.Code), e.Message, ""}, true
	}
	return &apiError{http.StatusInternalServerError, "internal", "Internal error in Lomi.", ""}, false
}
