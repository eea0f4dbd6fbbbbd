package configmaps

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// An admission policy grants or refuses these privileges when the class's pods are created.

// userOfNamespace is the value of run-as-user for pods that set no user.
const userOfNamespace = "namespace"

func parseRunAsUser(c *Config, value string, path *field.Path) field.ErrorList {
	if value == userOfNamespace {
		c.UserOfNamespace = true
		return nil
	}

	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return field.ErrorList{field.Invalid(path, value,
			"must be a whole number from 0 to 2147483647, or "+userOfNamespace+" to state none")}
	}

	user := int64(n)
	c.RunAsUser = &user

	return nil
}

// selinuxLevel is a sensitivity, or two, each perhaps with categories.
var selinuxLevel = regexp.MustCompile(`^s[0-9]+(:c[0-9]+([.,]c[0-9]+)*)?(-s[0-9]+(:c[0-9]+([.,]c[0-9]+)*)?)?$`)

func parseSELinuxLevel(c *Config, value string, path *field.Path) field.ErrorList {
	c.SELinuxLevel = value
	if !selinuxLevel.MatchString(value) {
		return field.ErrorList{field.Invalid(path, value,
			"must be a level of SELinux, such as s0, s0:c1,c2 or s0-s0:c0.c1023: the last part of a label that "+
				"ls -Z shows")}
	}

	return nil
}

// Privileges are the privileges beyond Pod Security's level restricted that the class needs, by their names in the
// allow-list, without directories of nodes.
func (c *Config) Privileges() (requested []string) {
	for _, p := range []struct {
		requested bool
		name      string
	}{{c.Root(), "root"}, {c.Privileged, "privileged"}, {c.HostNetwork, "host-network"},
		{c.DeleteUnderPressure, "node-critical"}} {
		if p.requested {
			requested = append(requested, p.name)
		}
	}

	for _, capability := range c.Capabilities {
		requested = append(requested, "capability/"+string(capability))
	}

	for _, device := range c.Devices {
		requested = append(requested, "device/"+device.Claim)
	}

	return requested
}

// Root reports whether the pod runs as root.
func (c *Config) Root() bool { return c.RunAsUser != nil && *c.RunAsUser == 0 }

// knownCapabilities are the capabilities of Linux 7.0, in the order of their numbers. None has been added since 5.9.
var knownCapabilities = []corev1.Capability{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
	"LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
	"SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
	"SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
	"MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
	"CHECKPOINT_RESTORE",
}

func parseCapabilities(c *Config, value string, path *field.Path) field.ErrorList {
	names, errs := list(value, path)
	for i, name := range names {
		capability := corev1.Capability(name)
		switch {
		case slices.Contains(knownCapabilities, capability):
		case name == "ALL":
			errs = append(errs, field.Invalid(path.Index(i), name,
				`must be one capability: name those that are needed, or write privileged: "true"`))
		case slices.Contains(knownCapabilities, corev1.Capability(strings.TrimPrefix(strings.ToUpper(name), "CAP_"))):
			errs = append(errs, field.Invalid(path.Index(i), name,
				"must be written in capitals and without CAP_: "+strings.TrimPrefix(strings.ToUpper(name), "CAP_")))
		default:
			errs = append(errs, field.Invalid(path.Index(i), name,
				"must be a capability of Linux without CAP_, such as SYS_ADMIN or NET_ADMIN: see man 7 "+
					"capabilities"))
		}

		c.Capabilities = append(c.Capabilities, capability)
	}

	return errs
}

// checkCapabilities refuses capabilities that would have no effect. A process that is not root loses the capabilities
// of its container at execve, and with no_new_privs it does not get them from a file.
func (c *Config) checkCapabilities() field.ErrorList {
	switch {
	case len(c.Capabilities) == 0:
		return nil
	case c.Privileged:
		return field.ErrorList{field.Forbidden(dataPath.Key(keyCapabilities),
			"a privileged container has every capability; remove the key")}
	case c.Root():
		return nil
	}

	return field.ErrorList{field.Required(dataPath.Key(keyRunAsUser),
		`must be "0": only root has the `+keyCapabilities+" of its container")}
}
