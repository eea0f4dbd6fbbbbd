package fake

import (
	"encoding/json"
	"fmt"
	"net/http"
)

type (
	object = map[string]any
	list   = []any
)

// answer is what goes back; status 0 means "none yet". Either body is sent as JSON, or raw as it is.
type answer struct {
	status      int
	contentType string // application/json where empty
	body        any
	raw         []byte
	header      [][2]string
}

func (a answer) with(key, value string) answer {
	a.header = append(a.header[:len(a.header):len(a.header)], [2]string{key, value})
	return a
}

// reply answers with a JSON body.
func reply(status int, body any) answer { return answer{status: status, body: body} }

// done answers without a body, as actions do.
func done() answer { return answer{status: 202} }

// accepted answers a DELETE.
func accepted() answer { return answer{status: 202, contentType: "text/html; charset=UTF-8"} }

// faultNames are the keys of Cinder's error bodies.
var faultNames = map[int]string{
	400: "badRequest", 401: "unauthorized", 403: "forbidden", 404: "itemNotFound", 405: "badMethod", 409: "conflictingRequest",
	413: "overLimit", 415: "badMediaType", 429: "overLimit", 501: "notImplemented", 503: "serviceUnavailable",
}

// refuse answers as Cinder refuses.
func refuse(status int, message string) answer {
	name := faultNames[status]
	if name == "" {
		name = "computeFault"
	}
	body := object{"code": status, "message": message}
	a := reply(status, object{name: body})
	if status == 413 || status == 429 {
		body["retryAfter"] = "0"
		a = a.with("Retry-After", "0")
	}
	return a
}

// invalid is the commonest refusal: a volume in the wrong status.
func invalid(format string, args ...any) answer {
	return refuse(400, "Invalid volume: "+fmt.Sprintf(format, args...))
}

func invalidInput(format string, args ...any) answer {
	return refuse(400, "Invalid input received: "+fmt.Sprintf(format, args...))
}

func notFound(what, id string) answer {
	return refuse(404, fmt.Sprintf("%s %s could not be found.", what, id))
}

// broken is all that Cinder says when something fails inside.
func broken() answer {
	return refuse(500, "The server has either erred or is incapable of performing the requested operation.")
}

// noRoute is the answer to an unknown path or method, of another form than Cinder's own errors.
func noRoute() answer {
	return reply(404, object{"message": "The resource could not be found.<br /><br />\n\n\n", "code": "404 Not Found", "title": "Not Found"})
}

// unauthorized is the answer of the Keystone at this URL, and of Cinder in its name.
func unauthorized(keystone string) answer {
	return keystoneError(401, "Unauthorized", "The request you have made requires authentication.").
		with("Www-Authenticate", fmt.Sprintf("Keystone uri=%q", keystone+"/v3"))
}

func keystoneError(status int, title, message string) answer {
	return reply(status, object{"error": object{"code": status, "title": title, "message": message}})
}

func (a answer) bytes() []byte {
	if a.raw != nil || a.body == nil {
		return a.raw
	}
	b, err := json.Marshal(a.body)
	if err != nil {
		panic(err)
	}
	return b
}

func (a answer) head(w http.ResponseWriter) {
	t := a.contentType
	if t == "" {
		t = "application/json"
	}
	w.Header().Set("Content-Type", t)
	for _, h := range a.header {
		w.Header().Set(h[0], h[1])
	}
}

func (a answer) write(w http.ResponseWriter) {
	a.head(w)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.bytes())
}

// writeHalf promises the whole body and sends half of it.
func (a answer) writeHalf(w http.ResponseWriter) {
	a.head(w)
	b := a.bytes()
	w.Header().Set("Content-Length", fmt.Sprint(len(b)+1))
	w.WriteHeader(a.status)
	_, _ = w.Write(b[:len(b)/2])
	_ = http.NewResponseController(w).Flush()
}
