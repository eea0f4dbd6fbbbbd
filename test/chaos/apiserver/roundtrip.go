package apiserver

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"time"
)

// RoundTrip makes the server an http.RoundTripper of good days: no delays, no faults.
func (s *Server) RoundTrip(hr *http.Request) (*http.Response, error) {
	r, err := Read(hr)
	if err != nil {
		return nil, err
	}
	if r.Verb == "watch" {
		at := func(_, _ string, at time.Time) time.Time { return at }
		response := Respond(hr, http.StatusOK, nil)
		response.Body, response.ContentLength = s.Watch(hr.Context(), r, at, nil), -1
		return response, nil
	}
	code, answer := s.Do(r)
	return Respond(hr, code, answer), nil
}

// Respond makes an answer an HTTP response.
func Respond(hr *http.Request, code int, answer []byte) *http.Response {
	return &http.Response{StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: hr, ContentLength: int64(len(answer)),
		Header: http.Header{"Content-Type": {"application/json"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}}, Body: io.NopCloser(bytes.NewReader(answer))}
}
