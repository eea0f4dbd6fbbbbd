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

// The calls, as docs/cinder-errors.md names them.
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
	Begun     Call = "attachments"
	Forget    Call = "delete attachment"
	Types     Call = "volume types"
	Message   Call = "messages"
)

// Error is an answer of Cinder or Keystone that is no success, or the lack of one.
type Error struct {
	Call Call
	// What the call was about: a volume's name or ID.
	What string
	// Status is the answer's, 0 where there was none.
	Status int
	// Text is the server's own, its first line.
	Text string
	err  error
}

// Error is for the claim's owner: Cinder's own words.
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

// Unwrap is the error of the HTTP client.
func (e *Error) Unwrap() error { return e.err }

// Explain turns an error of gophercloud into one that says by sdk.ExitCode what to do, and in Cinder's own words why. What
// docs/cinder-errors.md calls a success is nil.
func Explain(call Call, what string, err error) error {
	if err == nil || sdk.ExitCode(err) != 1 {
		return err
	}
	e := &Error{Call: call, What: what, err: err, Text: form.Line(err.Error())}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		e.Text = "what came is not JSON; is the endpoint right?"
	}
	if answer, answered := answerOf(err); answered {
		e.Status, e.Text = answer.Actual, textOf(answer)
	}
	switch verdict(call, e.Status, e.Text) {
	case success:
		return nil
	case refusal:
		return sdk.Refuse(e)
	case soon:
		return sdk.TryAgain(e)
	}
	return e
}

// answerOf looks behind the errors of gophercloud's second try with a new token, which do not unwrap.
func answerOf(err error) (gophercloud.ErrUnexpectedResponseCode, bool) {
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

// outcome is what an error leads to.
type outcome int

const (
	retry   outcome = iota // with growing delays; storage may half exist
	soon                   // nothing is wrong
	refusal                // somebody has to change something
	success                // what was asked for is so already
)

// undoing are the calls of a delete, to which "there is no such volume" is good news.
var undoing = []Call{Terminate, Detach, Unreserve, Delete, Show, Forget}

// verdict is docs/cinder-errors.md in code.
func verdict(call Call, status int, text string) outcome {
	switch {
	case status == http.StatusNotFound && slices.Contains(undoing, call) && !isHTML(text):
		return success
	case status == http.StatusNotFound && slices.Contains([]Call{Reserve, Connect, Attach, Extend}, call):
		return retry // the volume went away under us
	case status == http.StatusBadRequest && (strings.HasPrefix(text, "Invalid volume") || slices.Contains(undoing, call) || call == Extend):
		return retry // it is in another state
	case status == http.StatusTooManyRequests:
		return soon
	case slices.Contains([]int{0, http.StatusRequestTimeout, http.StatusConflict, http.StatusRequestEntityTooLarge}, status):
		return retry
	case status >= 300 && status < 500:
		return refusal
	}
	return retry
}

// isHTML: textOf marks the answers that are not of Cinder's API, such as a proxy's.
func isHTML(text string) bool { return strings.HasSuffix(text, notJSON) }

const notJSON = " (not an answer of the API; is the endpoint right?)"

// textOf is the server's message: in JSON the one in {"badRequest": {"message": …}} or {"message": …}, in HTML its title.
func textOf(answer gophercloud.ErrUnexpectedResponseCode) string {
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
	// A path that Cinder does not route has this form, with HTML in it.
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
