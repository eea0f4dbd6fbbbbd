package cinder

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

// Call names a request.
type Call string

// The calls, as docs/cinder-reference.md names them.
const (
	Login     Call = "log in"
	Find      Call = "find"
	Show      Call = "show"
	Create    Call = "create"
	Reserve   Call = "reserve"
	Connect   Call = "initialize_connection"
	Attach    Call = "attach"
	Terminate Call = "terminate_connection"
	Detach    Call = "detach"
	Unreserve Call = "unreserve"
	Delete    Call = "delete"
	Extend    Call = "extend"
	Records   Call = "attachments"
	Forget    Call = "delete attachment"
	Types     Call = "volume types"
	Message   Call = "messages"

	CreateAttachment   Call = "create attachment"
	UpdateAttachment   Call = "update attachment"
	CompleteAttachment Call = "complete attachment"

	FindSnapshot   Call = "find snapshots"
	ShowSnapshot   Call = "show snapshot"
	CreateSnapshot Call = "create snapshot"
	DeleteSnapshot Call = "delete snapshot"
)

// Error is an error response of Cinder or Keystone, or a missing response.
type Error struct {
	Call Call
	// What is the name or ID of the call's volume or snapshot.
	What string
	// Status is the HTTP status, 0 without a response.
	Status int
	// Text is the first line of the server's message.
	Text string
	err  error
}

// Error is for the claim's owner. It quotes Cinder's message.
func (e *Error) Error() string {
	about := string(e.Call)
	if e.What != "" {
		about += " " + e.What
	}
	if e.Status == 0 {
		return fmt.Sprintf("%s: no answer from cinder: %s", about, e.Text)
	}
	return fmt.Sprintf("%s: %s (HTTP %d)", about, e.Text, e.Status)
}

// Unwrap returns the error of the HTTP client.
func (e *Error) Unwrap() error { return e.err }

// Explain turns an error of gophercloud into one with an exit code and Cinder's message. It is nil for an error that
// docs/cinder-reference.md calls a success.
func Explain(call Call, what string, err error) error {
	if err == nil || sdk.ExitCode(err) != 1 {
		return err
	}
	e := &Error{Call: call, What: what, err: err, Text: form.Line(err.Error())}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		e.Text = "what came is not JSON; is the endpoint right?"
	}
	if answer, answered := responseOf(err); answered {
		e.Status, e.Text = answer.Actual, messageOf(answer)
	}
	switch outcomeOf(call, e.Status, e.Text) {
	case success:
		return nil
	case refusal:
		return sdk.Refuse(e)
	case retrySoon:
		return sdk.TryAgain(e)
	}
	return e
}

// responseOf finds the response in an error. The errors of gophercloud's retry with a new token do not unwrap.
func responseOf(err error) (gophercloud.ErrUnexpectedResponseCode, bool) {
	var answer gophercloud.ErrUnexpectedResponseCode
	var login *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &login) {
		err = login.ErrReauth
	}
	var again *gophercloud.ErrErrorAfterReauthentication
	if errors.As(err, &again) {
		err = again.ErrOriginal
	}
	return answer, errors.As(err, &answer)
}

// outcome is the consequence of an error.
type outcome int

const (
	retry     outcome = iota // with backoff; storage may exist in part
	retrySoon                // nothing is wrong
	refusal                  // somebody has to change something
	success                  // the requested state is there already
)

// stepCalls are the calls for which "there is no such volume", or attachment, is the news that somebody removed it
// meanwhile.
var stepCalls = []Call{Reserve, Connect, Attach, Extend, CreateSnapshot, CreateAttachment, UpdateAttachment, CompleteAttachment}

// undoCalls are the calls of a delete, for which "there is no such volume" or snapshot is a success.
var undoCalls = []Call{Terminate, Detach, Unreserve, Delete, Show, Forget, ShowSnapshot, DeleteSnapshot}

// outcomeOf implements the table in docs/cinder-reference.md.
func outcomeOf(call Call, status int, text string) outcome {
	switch {
	case status == http.StatusNotFound && slices.Contains(undoCalls, call) && !isHTML(text):
		return success
	case status == http.StatusNotFound && slices.Contains(stepCalls, call):
		return retry
	case status == http.StatusBadRequest && (strings.HasPrefix(text, "Invalid volume") || slices.Contains(undoCalls, call) || call == Extend):
		return retry // it is in another state
	case status == http.StatusTooManyRequests:
		return retrySoon
	case slices.Contains([]int{0, http.StatusRequestTimeout, http.StatusConflict, http.StatusRequestEntityTooLarge}, status):
		return retry
	case status >= 300 && status < 500:
		return refusal
	}
	return retry
}

// isHTML reports whether the message is not from Cinder's API but, for instance, from a proxy. messageOf marks such messages.
func isHTML(text string) bool { return strings.HasSuffix(text, notJSON) }

const notJSON = " (not an answer of the API; is the endpoint right?)"

// messageOf is the server's message: in JSON that of {"badRequest": {"message": …}} or {"message": …}, in HTML the title.
func messageOf(answer gophercloud.ErrUnexpectedResponseCode) string {
	text, found := messageIn(answer.Body)
	text = form.Line(text)
	if text == "" {
		text = http.StatusText(answer.Actual)
	}
	if !found {
		text += notJSON
	}
	return text
}

var (
	title = regexp.MustCompile(`(?is)<title>(.*?)</title>`)
	tags  = regexp.MustCompile(`<[^>]*>`)
)

func messageIn(body []byte) (text string, found bool) {
	var direct struct {
		Message string `json:"message"`
	}
	var nested map[string]json.RawMessage
	if json.Unmarshal(body, &nested) != nil {
		if m := title.FindSubmatch(body); m != nil {
			return html.UnescapeString(string(m[1])), false
		}
		return "", false
	}
	// The response for an unknown path of Cinder has this form, with HTML in it.
	if json.Unmarshal(body, &direct) == nil && direct.Message != "" {
		return html.UnescapeString(tags.ReplaceAllString(direct.Message, " ")), false
	}
	for _, key := range slices.Sorted(maps.Keys(nested)) {
		if json.Unmarshal(nested[key], &direct) == nil && direct.Message != "" {
			return direct.Message, true
		}
	}
	return "", false
}
