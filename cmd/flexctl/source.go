package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/flex-provisioner/flex-provisioner/internal/quantity"
)

// sourceFlags are the flags that describe a volume. Unlike in YAML, no value needs quotes.
type sourceFlags struct {
	nfs, iscsi, local, csi string
	fsType                 string
	capacity               string
	mountOptions           []string
	annotations            []string
}

func (s *sourceFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&s.nfs, "nfs", "", "`SERVER:/PATH` of an NFS export")
	flags.StringVar(&s.iscsi, "iscsi", "", "`PORTAL,IQN,LUN`, such as 10.0.0.1:3260,iqn.2026-01.com.example:x,1")
	flags.StringVar(&s.local, "local", "", "`/PATH` on this node; with --node-affinity on another one")
	flags.StringVar(&s.csi, "csi", "", "`DRIVER,HANDLE` of a CSI driver that is there already")
	flags.StringVar(&s.fsType, "fs-type", "", "file system of an iscsi, local or csi volume: `ext4`, xfs ...")
	flags.StringVar(&s.capacity, "capacity", "", "the real `SIZE`, where it came out larger than requested: 12Gi, or a number of bytes")
	flags.StringArrayVar(&s.mountOptions, "mount-option", nil, "one mount `OPTION` beside those of the class; may be repeated")
	flags.StringArrayVar(&s.annotations, "annotation", nil, "`KEY=VALUE`, a note for your own delete, under a domain of yours; may be repeated")
}

// isSet reports whether a flag gives the source, so that there is no input to read.
func (s *sourceFlags) isSet() bool { return s.nfs+s.iscsi+s.local+s.csi != "" }

// source is the volume source that the flags give. It is an error unless exactly one of them is set.
func (s *sourceFlags) source() (object, error) {
	source := object{}
	var names []string
	for _, flag := range []struct {
		name, value string
		parse       func(string, object) error
	}{
		{"--nfs", s.nfs, parseNFS}, {"--iscsi", s.iscsi, parseISCSI}, {"--local", s.local, parseLocal}, {"--csi", s.csi, parseCSI},
	} {
		if flag.value == "" {
			continue
		}
		names = append(names, flag.name)
		if err := flag.parse(flag.value, source); err != nil {
			return source, fmt.Errorf("%s: %q: %w", flag.name, flag.value, err)
		}
	}
	if len(names) > 1 {
		return source, fmt.Errorf("%s: a volume has exactly one source; keep one", strings.Join(names, " and "))
	}
	return source, s.setFSType(source)
}

func parseNFS(value string, source object) error {
	server, path, found := strings.Cut(value, ":/")
	if !found || server == "" {
		return errors.New("write SERVER:/PATH")
	}
	source["nfs"] = object{"server": server, "path": "/" + path}
	return nil
}

func parseISCSI(value string, source object) error {
	const form = "write PORTAL,IQN,LUN"
	parts := strings.Split(value, ",")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" {
		return errors.New(form)
	}
	lun, err := strconv.ParseInt(parts[2], 10, 32)
	if err != nil || lun < 0 {
		return errors.New(form + ", with a number for LUN")
	}
	source["iscsi"] = object{"targetPortal": parts[0], "iqn": parts[1], "lun": lun}
	return nil
}

func parseLocal(value string, source object) error {
	if !strings.HasPrefix(value, "/") {
		return errors.New("write an absolute path")
	}
	source["local"] = object{"path": value}
	return nil
}

func parseCSI(value string, source object) error {
	driver, handle, _ := strings.Cut(value, ",")
	if driver == "" || handle == "" {
		return errors.New("write DRIVER,HANDLE")
	}
	source["csi"] = object{"driver": driver, "volumeHandle": handle}
	return nil
}

func (s *sourceFlags) setFSType(source object) error {
	if s.fsType == "" {
		return nil
	}
	for _, name := range []string{"iscsi", "local", "csi"} {
		if fields, ok := source[name].(object); ok {
			fields["fsType"] = s.fsType
			return nil
		}
	}
	return errors.New("--fs-type goes with --iscsi, --local and --csi")
}

// complete adds the flags that go with any source. A value that is in the input too is an error.
func (s *sourceFlags) complete(v *volumeInput) error {
	if s.fsType != "" && !s.isSet() {
		return errors.New("--fs-type goes with --iscsi, --local and --csi; in the input it is fsType")
	}
	if s.capacity != "" {
		if !v.capacity.IsZero() {
			return errors.New("both --capacity and capacity are given; keep one")
		}
		size, err := quantity.Parse(s.capacity)
		if err != nil {
			return fmt.Errorf("--capacity: %q is no quantity; write for example 12Gi or a number of bytes", s.capacity)
		}
		v.capacity = size
	}
	v.mountOptions = append(v.mountOptions, s.mountOptions...)
	for _, annotation := range s.annotations {
		key, value, found := strings.Cut(annotation, "=")
		if !found {
			return fmt.Errorf("--annotation: %q: write KEY=VALUE", annotation)
		}
		if _, both := v.annotations[key]; both {
			return fmt.Errorf("annotation %s is given twice; keep one", key)
		}
		if v.annotations == nil {
			v.annotations = map[string]string{}
		}
		v.annotations[key] = value
	}
	return nil
}
