package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestIdentify(t *testing.T) {
	own, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, want string }{
		{"this project's", string(own), "Apache-2.0"},
		{"MIT", "Permission is hereby granted, free\n of charge, to any person … THE SOFTWARE IS PROVIDED “AS IS”, …", "MIT"},
		{"BSD", "Redistribution and use in source and binary forms … * Redistributions of source code must retain … THIS SOFTWARE IS PROVIDED BY …", "BSD"},
		{"ISC", "Permission to use, copy, modify, and distribute this software for any purpose with or without fee is hereby granted", "ISC"},
		{"Mozilla's, which names GNU's", "Mozilla Public License Version 2.0 … \"Contributor Version\" … GNU General Public License, Version 2.0", "MPL-2.0"},
		{"GNU's", "GNU GENERAL PUBLIC LICENSE Version 3", ""},
		{"GNU's, quoting MIT's", "GNU Lesser General Public License … Permission is hereby granted, free of charge … the software is provided \"as is\"", ""},
		{"none that is known", "All rights reserved.", ""},
		{"empty", "", ""},
	} {
		if got := identify(c.text); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestLicenceIn(t *testing.T) {
	dir := t.TempDir()
	if _, err := licenceIn(dir); err == nil || err.Error() != "there is no licence in "+dir {
		t.Errorf("a folder without a licence: %v", err)
	}
	file := filepath.Join(dir, "COPYING")
	if err := os.WriteFile(file, []byte("Pay me."), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := licenceIn(dir); err == nil || !strings.HasPrefix(err.Error(), file+" is none of the licences that are allowed") {
		t.Errorf("a licence that is not known: %v", err)
	}
}
