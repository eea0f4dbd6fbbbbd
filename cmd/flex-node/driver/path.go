package driver

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Path is one way to a volume of the stager iscsi: the LUN of a target, by one of its portals.
type Path struct {
	Portal netip.AddrPort `json:"portal"`
	Target string         `json:"target"`
	LUN    int            `json:"lun"`
}

func (p Path) String() string { return fmt.Sprintf("%s/%s/%d", p.Portal, p.Target, p.LUN) }

// login is what a session is of.
func (p Path) login() string { return p.Portal.String() + " " + p.Target }

// CHAP is by what the node makes itself known to targets. It is in no error and in no log.
type CHAP struct{ Username, Password string }

func (CHAP) String() string { return "CHAP" }

// Keys of what an attach pod publishes of a volume.
const (
	publishedPaths = "paths"
	publishedWWID  = "wwid"
)

const (
	maxPaths = 16
	// maxTarget is the limit that the standard sets to the name of a target.
	maxTarget = 223
	// maxLUN is the largest that SCSI's flat addressing makes of 14 bits.
	maxLUN = 1<<15 - 1
	// maxSecret is what open-iscsi has room for.
	maxSecret = 255
)

var (
	targetForm = regexp.MustCompile(`^(iqn\.[0-9]{4}-[0-9]{2}\.[A-Za-z0-9._:-]+|(eui|naa)\.([[:xdigit:]]{16}){1,2})$`)
	lunForm    = regexp.MustCompile(`^(0|[1-9][0-9]{0,4})$`)
	// wwidForm is as Linux writes it.
	wwidForm = regexp.MustCompile(`^(naa\.([0-9a-f]{16}){1,2}|eui\.([0-9a-f]{16}|[0-9a-f]{24}|[0-9a-f]{32}))$`)
)

// setPublished checks what an attach pod says of a volume. It may be anybody's.
func (v *Volume) setPublished(published map[string]string) error {
	for key := range published {
		if key != publishedPaths && key != publishedWWID {
			return status.Errorf(codes.InvalidArgument, "publish_context has %.64q: paths and wwid are known", key)
		}
	}

	wwid, known := published[publishedWWID]
	if known && !wwidForm.MatchString(wwid) {
		return status.Errorf(codes.InvalidArgument,
			"publish_context.wwid is %.64q: it has to be naa. or eui. and lower-case hexadecimal digits", wwid)
	}

	if err := required("publish_context.paths", published[publishedPaths]); err != nil {
		return err
	}

	v.WWID = wwid
	fields := strings.SplitN(published[publishedPaths], " ", maxPaths+1)
	if len(fields) > maxPaths {
		return status.Errorf(codes.InvalidArgument, "publish_context.paths has more than %d paths", maxPaths)
	}

	for _, field := range fields {
		p, err := parsePath(field)
		if err == nil && slices.Contains(v.Paths, p) {
			err = errors.New("it is there twice")
		}

		if err != nil {
			return status.Errorf(codes.InvalidArgument, "publish_context.paths has %.320q: %v", field, err)
		}

		v.Paths = append(v.Paths, p)
	}

	return nil
}

func parsePath(text string) (p Path, err error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return p, errors.New("a path is PORTAL/IQN/LUN")
	}

	p.Portal, err = netip.ParseAddrPort(parts[0])
	ip := p.Portal.Addr()
	switch {
	case err != nil || p.Portal.String() != parts[0] || p.Portal.Port() == 0 || ip.Zone() != "":
		return p, errors.New("the portal has to be ADDRESS:PORT, or [ADDRESS]:PORT for IPv6, in its shortest form")
	case ip.IsLoopback() || ip.IsUnspecified() || ip.IsMulticast() || ip.Is4In6():
		return p, errors.New("the portal is no address of another machine")
	}

	p.Target = parts[1]
	if len(p.Target) > maxTarget || !targetForm.MatchString(p.Target) {
		return p, errors.New("the target has to be a name such as iqn.2010-10.org.openstack:volume-1")
	}

	p.LUN, err = strconv.Atoi(parts[2])
	if err != nil || !lunForm.MatchString(parts[2]) || p.LUN > maxLUN {
		return p, fmt.Errorf("the LUN has to be a number of at most %d", maxLUN)
	}

	return p, nil
}

// setCHAP takes from a volume's Secret what is for this node. The array may know every node by another name.
func (v *Volume) setCHAP(secrets map[string]string, node string) error {
	username, password := node+".username", node+".password"
	v.CHAP = CHAP{Username: secrets[username], Password: secrets[password]}
	if v.CHAP == (CHAP{}) {
		return nil
	}

	for _, key := range []string{username, password} {
		value := secrets[key]
		strange := strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' })
		if value == "" || len(value) > maxSecret || strange || strings.TrimSpace(value) != value {
			return status.Errorf(codes.InvalidArgument, "the volume's Secret has no %.256q of 1 to %d printable characters, "+
				"without a space or line end around them", key, maxSecret)
		}
	}

	return nil
}
