package fake_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// act makes a call about a volume without authentication and returns what came back; an error is one of the connection.
func act(ctx context.Context, f *fake.Cinder, method, path, body string) (status int, answer string, err error) {
	c := &client{endpoint: f.Endpoint(), token: noauth}
	return c.call(ctx, step{method: method, path: path, body: body})
}

const reserve = `{"os-reserve": null}`

func TestFaults(t *testing.T) {
	type result struct {
		status int
		answer string // a part of it
		err    string // a part of it
		volume string // the status that the volume has afterwards
	}
	for _, c := range []struct {
		name  string
		fault fake.Fault
		want  result
	}{
		{"none on this call", fake.On("os-unreserve").Close(), result{status: 202, volume: "attaching"}},
		{"refused", fake.On("os-reserve").Refuse(503, "busy"), result{503, `{"serviceUnavailable":{"code":503,"message":"busy"}}`, "", "available"}},
		{"over limit", fake.On("os-reserve").Refuse(413, "full"), result{413, `"retryAfter":"0"`, "", "available"}},
		{"refused after", fake.On("os-reserve").AfterEffect().Refuse(500, "oh"), result{500, `{"computeFault":{"code":500,"message":"oh"}}`, "", "attaching"}},
		{"a proxy's page", fake.On("os-reserve").HTML(502), result{502, "<title>Bad Gateway</title>", "", "available"}},
		{"any answer", fake.On("os-reserve").Answer(418, "text/plain", "teapot"), result{418, "teapot", "", "available"}},
		{"closed", fake.On("os-reserve").Close(), result{0, "", "EOF", "available"}},
		{"answer lost", fake.On("os-reserve").AfterEffect().Close(), result{0, "", "EOF", "attaching"}},
		{"answer cut", fake.On("os-reserve").Truncate(), result{202, "", "unexpected EOF", "attaching"}},
		{"delayed", fake.On("os-reserve").Delay(time.Millisecond), result{202, "", "", "attaching"}},
		{"not the first", fake.On("os-reserve").Nth(2).Close(), result{202, "", "", "attaching"}},
		{"any call", fake.On("*").Close(), result{0, "", "EOF", "available"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := fake.New(t)
			id := f.AddVolume(fake.Volume{Name: "v"}).ID
			f.Fault(c.fault)
			status, answer, err := act(t.Context(), f, "POST", "/volumes/"+id+"/action", reserve)
			got := result{status: status, answer: c.want.answer, volume: f.Volume("v").Status}
			if !strings.Contains(answer, c.want.answer) {
				got.answer = answer
			}
			if err != nil {
				if got.err = err.Error(); c.want.err != "" && strings.Contains(got.err, c.want.err) {
					got.err = c.want.err
				}
			}
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestFaultsInTurn(t *testing.T) {
	f := fake.New(t)
	id := f.AddVolume(fake.Volume{}).ID
	second := f.Fault(fake.On("GET /volumes/{id}").Nth(2).Refuse(500, "second"))
	always := f.Fault(fake.On("GET /volumes/{id}").Nth(4).Always().Refuse(404, "from the fourth"))
	var got []int
	for range 5 {
		status, _, err := act(t.Context(), f, "GET", "/volumes/"+id, "")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, status)
	}
	always.Remove()
	status, _, _ := act(t.Context(), f, "GET", "/volumes/"+id, "")
	got = append(got, status)
	if want := []int{200, 500, 200, 404, 404, 200}; !reflect.DeepEqual(got, want) {
		t.Errorf("statuses %v, want %v", got, want)
	}
	if second.Fired() != 1 || always.Fired() != 2 {
		t.Errorf("fired %d and %d times, want 1 and 2", second.Fired(), always.Fired())
	}
}

// A caller that goes away leaves the effect undone, or done where the hang comes after it.
func TestHang(t *testing.T) {
	for want, fault := range map[string]fake.Fault{
		"available": fake.On("os-reserve").Hang(),
		"attaching": fake.On("os-reserve").AfterEffect().Hang(),
	} {
		f := fake.New(t)
		id := f.AddVolume(fake.Volume{Name: "v"}).ID
		ctx, cancel := context.WithCancel(t.Context())
		f.Fault(fault.Do(func(fake.Call) { cancel() }))
		if _, _, err := act(ctx, f, "POST", "/volumes/"+id+"/action", reserve); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want that the context was canceled", err)
		}
		if got := f.Volume("v").Status; got != want {
			t.Errorf("the volume is %s, want %s", got, want)
		}
	}
}

func TestDo(t *testing.T) {
	f := fake.New(t)
	id := f.AddVolume(fake.Volume{Name: "v"}).ID
	var seen []string
	note := func(c fake.Call) { seen = append(seen, c.Op+" "+f.Volume("v").Status) }
	f.Fault(fake.On("os-reserve").Do(note))
	f.Fault(fake.On("os-unreserve").AfterEffect().Do(note))
	for _, action := range []string{reserve, `{"os-unreserve": null}`} {
		if _, _, err := act(t.Context(), f, "POST", "/volumes/"+id+"/action", action); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"os-reserve available", "os-unreserve available"}; !reflect.DeepEqual(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
	if want := []string{"os-reserve", "os-unreserve"}; !reflect.DeepEqual(f.Calls().Ops(), want) {
		t.Errorf("calls %q, want %q", f.Calls().Ops(), want)
	}
}
