package form

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// iscsiPort is the default port of a portal.
const iscsiPort = "3260"

var (
	hostName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)
	// numeric matches the end of names that the C library takes for an IPv4 address, such as 127.1 and 0x7f000001.
	numeric = regexp.MustCompile(`(^|\.)([0-9]+|0[xX][0-9A-Fa-f]*)$`)
	number  = regexp.MustCompile(`^[0-9]{1,5}$`)
)

// Portal checks an iSCSI portal. It puts an IPv6 address into brackets, and adds a missing port. It removes a portal group such as ",1"
// at the end.
func Portal(field, text string) (string, error) {
	address, group, grouped := strings.Cut(text, ",")
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = unbracketed(address), iscsiPort
		if ip, last, ends := portAfter(address); ends {
			if _, whole := ipOf(address); whole {
				return "", fmt.Errorf("%s %s may be an IPv6 address with a port or without; have the backend write [%s]:%s or [%s]",
					field, Quote(text), ip, last, address)
			}
			host, port = ip, last
		}
	}
	normal, known := ipOf(host)
	port, valid := portOf(port)
	if !known || !valid || grouped && !number.MatchString(group) {
		return "", wrong(field, text, "an IP address without a zone, with a port or without: the kubelet finds a "+
			"disk by the address")
	}
	return net.JoinHostPort(normal, port), nil
}

// portAfter splits what is an IPv6 address without brackets, a colon and a port.
func portAfter(address string) (ip, port string, ends bool) {
	last := strings.LastIndexByte(address, ':')
	if last < 0 {
		return "", "", false
	}
	ip, port = address[:last], address[last+1:]
	_, known := ipOf(ip)
	_, valid := portOf(port)
	return ip, port, known && valid
}

// Monitor checks a Ceph monitor and its port. Cinder strips the brackets of IPv6 addresses, and Ceph's tools need them.
func Monitor(field, host, port string) (string, error) {
	normal, known := hostOf(unbracketed(host))
	number, valid := portOf(port)
	if !known || !valid {
		return "", wrong(field, host+":"+port, "an IP address without a zone or a DNS name, and a port")
	}
	return net.JoinHostPort(normal, number), nil
}

// Address checks an IP address. It allows no zone, which may have commas: the kernel has the address in a list of options between commas.
func Address(field, text string) (string, error) {
	normal, known := ipOf(unbracketed(text))
	if !known {
		return "", wrong(field, text, "an IP address without a zone")
	}
	return normal, nil
}

// Port checks a TCP port.
func Port(field, text string) (string, error) {
	port, valid := portOf(text)
	if !valid {
		return "", wrong(field, text, "a port between 1 and 65535")
	}
	return port, nil
}

func unbracketed(address string) string {
	if inner, found := strings.CutPrefix(address, "["); found {
		if inner, found = strings.CutSuffix(inner, "]"); found {
			return inner
		}
	}
	return address
}

func hostOf(text string) (string, bool) {
	if ip, known := ipOf(text); known {
		return ip, true
	}
	return text, len(text) <= 253 && hostName.MatchString(text) && !numeric.MatchString(text)
}

// ipOf refuses addresses of several hosts, or of none.
func ipOf(text string) (string, bool) {
	ip, err := netip.ParseAddr(text)
	if ip = ip.Unmap(); err != nil || ip.Zone() != "" || ip.IsUnspecified() || ip.IsMulticast() {
		return "", false
	}
	return ip.String(), true
}

func portOf(text string) (string, bool) {
	if !number.MatchString(text) {
		return "", false
	}
	port, err := strconv.ParseUint(text, 10, 16)
	return strconv.FormatUint(port, 10), err == nil && port > 0
}
