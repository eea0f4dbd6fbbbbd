package configmaps

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const digits64 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestImage(t *testing.T) {
	const form = ": must be an image reference such as registry.example.com/team/provisioner:v1 or name@sha256:…"
	for image, want := range map[string]string{
		"custom/iscsi-provision": "", "busybox": "", "busybox:1.37": "", "localhost:5000/a/b:v1": "", "[fd00::1]:5000/a": "", "10.0.0.1/a": "",
		"reg.example.com/a__b/c-d/e.f_g:V1-x_y.z": "", "a@sha256:" + digits64: "", "a:v1@sha256:" + digits64: "", "UPPER.example.com/a": "", "a--b": "", "xn--bcher-kva.example/a": "",
		"a:" + strings.Repeat("t", 128):  "",
		"a b":                            form,
		"-a":                             form,
		"--privileged":                   form,
		"a:":                             form,
		":v1":                            form,
		"a/":                             form,
		"/a":                             form,
		"a//b":                           form,
		"a..b":                           form,
		"a___b":                          form,
		"a:b:c":                          form,
		"a@sha256:" + digits64[1:]:       form,
		"a@md5:" + digits64[:32]:         form,
		"a:" + strings.Repeat("t", 129):  form,
		"https://reg.example.com/a":      form,
		"a\nb":                           form,
		"$(IMAGE)":                       form,
		"ä":                              form,
		"Custom-Iscsi":                   ": the repository's name must be lower case",
		"reg.example.com/Team/a":         ": the repository's name must be lower case",
		digits64:                         ": 64 hexadecimal digits are an image's hash, not its name; write name@sha256:…",
		"reg.example.com/" + digits64:    "",
		digits64[:63]:                    "",
		"reg.example.com:port/a":         form,
		"a@sha256:" + digits64 + ":tag":  form,
		"reg_with_underscore.example/a/": form,
	} {
		var config Config
		got := strings.Join(texts(parseImage(&config, image, field.NewPath("i"))), "\n")
		if want != "" {
			want = field.Invalid(field.NewPath("i"), image, want[2:]).Error()
		}

		if got != want {
			t.Errorf("image %q\nwant %s\ngot  %s", image, want, got)
		}
	}
}

// TestCheckText holds what a YAML file cannot, broken UTF-8 among it.
func TestCheckText(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "a\tb\n": "", "größe €": "", "real \ufffd": "",
		"a\r\n":    "v: Invalid value: byte 1 is a carriage return; save the text with Unix line ends",
		"a\x00":    "v: Invalid value: byte 1 is the control character U+0000; only newline and tab are allowed",
		"\x1b[31m": "v: Invalid value: byte 0 is the control character U+001B; only newline and tab are allowed",
		"ä\u0085":  "v: Invalid value: byte 2 is the control character U+0085; only newline and tab are allowed",
		"ab\xff":   "v: Invalid value: byte 2 is not UTF-8; put binary files into a Secret (key secrets)",
	} {
		if got := strings.Join(texts(checkText(value, field.NewPath("v"))), "\n"); got != want {
			t.Errorf("%q: want %s, got %s", value, want, got)
		}
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		path, dir string
		want      bool
	}{
		{"/mnt/flex", "/mnt/flex", true}, {"/mnt/flex/a", "/mnt/flex", true}, {"/mnt/flexible", "/mnt/flex", false}, {"/mnt", "/mnt/flex", false}, {"/a", "/", true}, {"/", "/", true},
	} {
		if got := isWithin(c.path, c.dir); got != c.want {
			t.Errorf("within(%q, %q) = %t, want %t", c.path, c.dir, got, c.want)
		}
	}
}

// TestBounds: what is just allowed, and what is just not.
func TestBounds(t *testing.T) {
	many := func(n int, format string) string {
		var items []string
		for i := range n {
			items = append(items, fmt.Sprintf(format, i))
		}

		return strings.Join(items, ",")
	}
	const sizes = "must be two quantities of whole bytes such as 1Gi-10Ti, or one of them: 1Gi- or -10Ti"
	for _, c := range []struct{ key, value, want string }{
		{"pod-labels", many(16, "l%d=x"), ""},
		{"pod-labels", many(17, "l%d=x"), "data[pod-labels]: Too many: 17: must have at most 16 items"},
		{"pod-annotations", many(16, "a%d=x"), ""},
		{"pod-annotations", many(17, "a%d=x"), "data[pod-annotations]: Too many: 17: must have at most 16 items"},
		{"tolerations", "[" + many(16, "{key: k%d, operator: Exists}") + "]", ""},
		{"tolerations", "[" + many(17, "{key: k%d, operator: Exists}") + "]", "data[tolerations]: Too many: 17: must have at most 16 items"},
		{"secrets", many(16, "s%d"), ""},
		{"secrets", many(17, "s%d"), "data[secrets]: Too many: 17: must have at most 16 items"},
		{"max-concurrent", "10000", ""},
		{"max-concurrent", "10001", `data[max-concurrent]: Invalid value: "10001": must be a whole number from 0 to 10000`},
		{"claim-sizes", "1Gi-", ""},
		{"claim-sizes", "1Gi-1Gi", ""},
		{"claim-sizes", "0-1Gi", `data[claim-sizes]: Invalid value: "0-1Gi": ` + sizes},
		{"claim-sizes", "-9223372036854775806", ""},
		{"claim-sizes", "-9223372036854775807", `data[claim-sizes]: Invalid value: "-9223372036854775807": ` + sizes},
		{"timeout", "24h", ""},
		{"timeout", "86401s", `data[timeout]: Invalid value: "86401s": must lie between 10s and 24h0m0s`},
		{"timeout", "10s", ""},
		{"timeout", "9s", `data[timeout]: Invalid value: "9s": must lie between 10s and 24h0m0s`},
		{"resources", "{requests: {cpu: 1}, limits: {cpu: 1}}", ""},
		{"resources", "{requests: {cpu: 1001m}, limits: {cpu: 1}}", `data[resources].requests[cpu]: Invalid value: "1001m": must be at most the limit, 1`},
	} {
		if _, faults := Parse(good(map[string]string{c.key: c.value})); strings.Join(texts(faults), "\n") != c.want {
			t.Errorf("%s: %.60s: %q, want %q", c.key, c.value, texts(faults), c.want)
		}
	}
}

// TestListGap: nothing between two commas is no item, and what follows is one.
func TestListGap(t *testing.T) {
	if got, errs := list("a,, ,b\n \nc", field.NewPath("p")); len(errs) > 0 || strings.Join(got, " ") != "a b c" {
		t.Errorf("got %q, %v", got, errs)
	}
}

// TestDefaultRequests: a request that is given takes no default from another, whichever is looked at first.
func TestDefaultRequests(t *testing.T) {
	for range 20 {
		for _, given := range []string{"cpu", "memory"} {
			config, faults := Parse(good(map[string]string{"resources": "{requests: {" + given + ": 1}}"}))
			if len(faults) > 0 || len(config.Resources.Requests) != 2 {
				t.Fatalf("%s: %v, %v", given, config, faults)
			}
		}
	}
}
