package fake

import "net/http"

// A Fault says which call goes wrong, and how. It begins with On, and Cinder.Fault puts it in force:
//
//	fake.On("os-reserve").Close()                     // the first os-reserve from now on: no effect, no answer
//	fake.On("POST /volumes").AfterEffect().Close()    // the volume is made, the answer is lost
//	fake.On("DELETE /volumes/{id}").Nth(2).Refuse(503, "busy")
//	fake.On("GET /volumes/{id}").Always().HTML(502)
//	fake.On("*").Nth(7).Hang()                        // the seventh call of any kind
type Fault struct {
	op     string
	nth    int
	always bool
	after  bool
	do     func(Call)
	// end answers in another way than normally, or not at all.
	end func(w http.ResponseWriter, r *http.Request, normal answer)

	seen, fired int
	removed     bool
}

// On begins a fault of the first call, from now on, of an operation. Operations are called as in Call.Op: an action by
// its name, all else by method and path, where {id} stands for any; "*" is every call to Cinder, not those to Keystone.
func On(op string) Fault { return Fault{op: op, nth: 1} }

// Nth lets the fault be on the n-th call, counted from 1 and from when it is put in force.
func (f Fault) Nth(n int) Fault { f.nth = n; return f }

// Always lets it be on every call, from the n-th on where Nth is given.
func (f Fault) Always() Fault { f.always = true; return f }

// AfterEffect lets Cinder do what it was asked first: only the answer goes wrong.
func (f Fault) AfterEffect() Fault { f.after = true; return f }

// Do calls a function, before the effect or, with AfterEffect, after it: the place to kill the caller.
func (f Fault) Do(do func(Call)) Fault { f.do = do; return f }

// Close ends the connection without an answer.
func (f Fault) Close() Fault {
	f.end = func(http.ResponseWriter, *http.Request, answer) { panic(http.ErrAbortHandler) }
	return f
}

// Truncate sends half of the answer and ends the connection. It implies AfterEffect.
func (f Fault) Truncate() Fault {
	f.after, f.end = true, func(w http.ResponseWriter, _ *http.Request, normal answer) {
		normal.writeHalf(w)
		panic(http.ErrAbortHandler)
	}
	return f
}

// Hang gives no answer until the caller goes away. Without AfterEffect the call has no effect either.
func (f Fault) Hang() Fault {
	f.end = func(_ http.ResponseWriter, r *http.Request, _ answer) {
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	return f
}

// Refuse answers as Cinder does, in JSON: {"badRequest": {"code": 400, "message": message}} for 400, and so on.
func (f Fault) Refuse(status int, message string) Fault {
	return f.respond(refuse(status, message))
}

// HTML answers as a proxy before Cinder does.
func (f Fault) HTML(status int) Fault {
	title := http.StatusText(status)
	return f.Answer(status, "text/html", "<html><head><title>"+title+"</title></head>\n<body><h1>"+title+"</h1></body></html>\n")
}

// Answer answers with any body.
func (f Fault) Answer(status int, contentType, body string) Fault {
	return f.respond(answer{status: status, contentType: contentType, raw: []byte(body)})
}

func (f Fault) respond(a answer) Fault {
	f.end = func(w http.ResponseWriter, _ *http.Request, _ answer) { a.write(w) }
	return f
}

// Armed is a fault in force.
type Armed struct {
	f     *Cinder
	fault *Fault
}

// Fault puts a fault in force. Where several are on one call, the first of them that is not done acts.
func (f *Cinder) Fault(fault Fault) Armed {
	f.locked(func() { f.faults = append(f.faults, &fault) })
	return Armed{f, &fault}
}

// Fired is how many calls it was on so far.
func (a Armed) Fired() (fired int) {
	a.f.locked(func() { fired = a.fault.fired })
	return fired
}

// Remove ends the fault for the calls from now on.
func (a Armed) Remove() { a.f.locked(func() { a.fault.removed = true }) }

// faultOn counts the call with all faults on its operation and returns the one that acts, or nil.
func (f *Cinder) faultOn(call Call) *Fault {
	var acting *Fault
	for _, fault := range f.faults {
		if fault.removed || !call.of(fault.op) {
			continue
		}
		fault.seen++
		due := fault.seen == fault.nth || fault.always && fault.seen > fault.nth
		if due && acting == nil {
			acting = fault
			fault.fired++
		}
	}
	return acting
}

// act does what the fault says, at one of its two places. It returns true where the call ends with it.
func (f *Fault) act(w http.ResponseWriter, r *http.Request, call Call, normal answer) bool {
	if f.do != nil {
		f.do(call)
	}
	if f.end != nil {
		f.end(w, r, normal)
	}
	return f.end != nil
}
