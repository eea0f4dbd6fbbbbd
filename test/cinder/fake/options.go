package fake

import "time"

// An Option changes how a fake begins. Most have a method of the same meaning for later.
type Option func(*Cinder)

type settings struct {
	pace          Pace
	connection    Connection
	maxMinor      int
	zones         []string
	anyProject    bool // Cinder before 20.0.0
	defaultLimits Quota
}

func defaults() settings {
	return settings{
		pace:          Reads(1),
		connection:    ISCSI(),
		maxMinor:      70,
		zones:         []string{"nova"},
		defaultLimits: Quota{Volumes: 10, Gigabytes: 1000},
	}
}

// Pace is how long a volume stays in a passing status: creating, extending, deleting.
type Pace struct {
	reads int
	wait  time.Duration
}

// Reads lets a passing status be seen by n reads (show or detailed list); the next one sees its end. The default is 1.
func Reads(n int) Pace { return Pace{reads: n} }

// After lets a passing status last for d.
func After(d time.Duration) Pace { return Pace{wait: d} }

// WithPace sets how long passing statuses last.
func WithPace(p Pace) Option { return func(f *Cinder) { f.settings.pace = p } }

// WithConnection sets what os-initialize_connection answers; the default is ISCSI().
func WithConnection(c Connection) Option { return func(f *Cinder) { f.settings.connection = c } }

// SetConnection is WithConnection for the calls from now on.
func (f *Cinder) SetConnection(c Connection) { f.locked(func() { f.settings.connection = c }) }

// WithZones sets the availability zones; the first is the default one. Without it there is one, "nova".
func WithZones(zones ...string) Option { return func(f *Cinder) { f.settings.zones = zones } }

// BeforeYoga makes it a Cinder of before 20.0.0, which takes any project name in the URL and needs one there.
func BeforeYoga() Option {
	return func(f *Cinder) {
		f.settings.anyProject = true
		f.settings.maxMinor = 66
	}
}

// A Type is a volume type. Extra specs that mean something: multiattach "<is> True"; volume_backend_name, which makes
// volumes of the type end in error unless it is Backend.
type Type struct {
	Name        string
	Description string
	ExtraSpecs  map[string]string
}

// Backend is the name of the one backend that there is.
const Backend = "sparse"

// WithType adds a volume type beside __DEFAULT__.
func WithType(t Type) Option { return func(f *Cinder) { f.addType(t) } }

// WithMultiattachType adds a volume type of this name whose volumes may be attached more than once.
func WithMultiattachType(name string) Option {
	return WithType(Type{Name: name, ExtraSpecs: map[string]string{"multiattach": "<is> True", "volume_backend_name": Backend}})
}
