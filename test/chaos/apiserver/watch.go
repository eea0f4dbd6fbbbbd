package apiserver

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Lag says when a watch may tell a change that was made at a time. change names the object and counts its versions.
type Lag func(resource, change string, at time.Time) time.Time

// asOf is what there was at a time, and the version of that.
func (k *kind) asOf(at time.Time) (objects map[string]*entry, version int64) {
	objects, version = map[string]*entry{}, 1
	for _, c := range k.log {
		if c.at > at.UnixNano() {
			break
		}
		if version = c.version; c.after == nil {
			delete(objects, key(c.before.object.GetNamespace(), c.before.object.GetName()))
		} else {
			objects[key(c.after.object.GetNamespace(), c.after.object.GetName())] = c.after
		}
	}
	return objects, version
}

func matching(k *kind, objects map[string]*entry, r *Request) []*entry {
	var list []*entry
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if e := objects[name]; k.matches(r, e) {
			list = append(list, e)
		}
	}
	return list
}

// Watch streams changes into the answer's body until ctx ends, the watch's own timeout, or cut is closed. Changes of one
// kind keep their order, whatever lag says.
func (s *Server) Watch(ctx context.Context, r *Request, lag Lag, cut <-chan struct{}) io.ReadCloser {
	reader, writer := io.Pipe()
	go func() { _ = writer.CloseWithError(s.stream(ctx, r, lag, cut, writer)) }()
	return reader
}

func (s *Server) stream(ctx context.Context, r *Request, lag Lag, cut <-chan struct{}, out io.Writer) error {
	k := s.kinds[r.Resource]
	if r.timeout == 0 {
		r.timeout = 1800
	}
	ended := time.NewTimer(time.Duration(r.timeout) * time.Second)
	defer ended.Stop()
	next, err := s.begin(k, r, out)
	if err != nil {
		return err
	}
	for {
		s.mu.Lock()
		wake := k.wake
		var c *change
		if next < len(k.log) {
			c = &k.log[next]
		}
		s.mu.Unlock()
		if c == nil {
			select {
			case <-wake:
			case <-ended.C:
				return io.EOF
			case <-cut:
				return io.ErrUnexpectedEOF
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		next++
		if wait := time.Until(lag(r.Resource, c.name(), time.Unix(0, c.at))); wait > 0 {
			select {
			case <-time.After(wait):
			case <-s.Calm:
			case <-cut:
				return io.ErrUnexpectedEOF
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := k.tell(out, r, c); err != nil {
			return err
		}
	}
}

// begin writes what a watch begins with, and returns the place in the history from which it goes on.
func (s *Server) begin(k *kind, r *Request, out io.Writer) (next int, err error) {
	s.mu.Lock()
	from, _ := strconv.ParseInt(r.version, 10, 64)
	version, floor, next := s.version, k.floor, len(k.log)
	first := matching(k, k.objects, r)
	if from > 0 && !r.initial {
		next, _ = slices.BinarySearchFunc(k.log, from+1, func(c change, v int64) int { return int(c.version - v) })
		first = nil
	}
	s.mu.Unlock()
	if from > 0 && from < floor {
		_, answer := failure(Status(410, metav1.StatusReasonExpired, fmt.Sprintf("too old resource version: %d (%d)", from, floor)))
		if err := frame(out, "ERROR", answer); err != nil {
			return 0, err
		}
		return 0, io.EOF
	}
	for _, e := range first {
		if err := frame(out, "ADDED", e.json); err != nil {
			return 0, err
		}
	}
	if r.initial {
		err = frame(out, "BOOKMARK", fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}`, k.name, k.apiVersion(), version))
	}
	return next, err
}

// tell writes one change as the watch sees it: an object that begins to match its selector appears, one that ceases to
// vanishes.
func (k *kind) tell(out io.Writer, r *Request, c *change) error {
	was, is := k.matches(r, c.before), k.matches(r, c.after)
	switch {
	case is && was:
		return frame(out, "MODIFIED", c.after.json)
	case is:
		return frame(out, "ADDED", c.after.json)
	case was && c.last != nil:
		return frame(out, "DELETED", c.last)
	case was:
		return frame(out, "DELETED", c.after.json)
	}
	return nil
}

func frame(out io.Writer, kind string, object []byte) error {
	_, err := fmt.Fprintf(out, `{"type":%q,"object":%s}`+"\n", kind, object)
	return err
}
