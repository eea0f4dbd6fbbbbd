package images

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

// eachByName runs a test for each image, with directories that are named after the claim.
func eachByName(t *testing.T, test func(t *testing.T, newClass func(more map[string]string) class)) {
	for name, newOf := range map[string]func(*testing.T, map[string]string) class{"hostpath": newHostpath, "nfs-subdir": newNFS} {
		t.Run(name, func(t *testing.T) {
			test(t, func(more map[string]string) class {
				properties := map[string]string{"path-pattern": byName}
				for name, value := range more {
					properties[name] = value
				}
				return newOf(t, properties)
			})
		})
	}
}

// next is another volume of the same class, for a claim of the same namespace and name.
func (c class) next() class {
	c.name = another
	return c
}

func (c class) file() string { return filepath.Join(c.dir(), "a", "b", "file") }

// wantFile is that nothing of the directory was removed.
func (c class) wantFile(t *testing.T, when string) {
	t.Helper()
	if data, err := os.ReadFile(c.file()); err != nil || string(data) != "data" {
		t.Errorf("%s: %q, %v", when, data, err)
	}
}

const ofAnother = " is the directory of another volume, which has to be deleted first"

// Of two volumes of one name the first has the directory until it is deleted. The second one waits, and removes nothing.
func TestOneNameOneVolume(t *testing.T) {
	eachByName(t, func(t *testing.T, newClass func(map[string]string) class) {
		c := newClass(nil)
		c.fill(t)
		second := c.next()
		for _, make := range []func(*testing.T) sdktest.Pod{second.provision, second.provision} {
			second.run(t, make(t), 0).Expect(t, 1, c.base+"/"+claimDirectory+" on "+c.at+ofAnother)
		}
		second.run(t, second.undo(t), 0).Expect(t, 0, "")
		second.run(t, second.delete(t), 0).Expect(t, 0, "")
		c.wantFile(t, "after the undo of the second volume")
		c.run(t, c.delete(t), 0).Expect(t, 0, "")
		c.checkDeleted(t)
		second.fill(t)
		// The dispatcher does not know that the first delete was done.
		c.run(t, c.delete(t), 0).Expect(t, 0, "")
		second.wantFile(t, "after the first volume's second delete")
		second.run(t, second.delete(t), 0).Expect(t, 0, "")
		second.checkDeleted(t)
	})
}

// A delete that was killed anywhere, and goes on after the next volume got the name, removes nothing of that one.
func TestNameTakenBetween(t *testing.T) {
	eachByName(t, func(t *testing.T, newClass func(map[string]string) class) {
		for at, ended := 1, false; !ended; at++ {
			c := newClass(nil)
			c.fill(t)
			ended = c.run(t, c.delete(t), at).Code != sdktest.Killed
			second := c.next()
			got := second.run(t, second.provision(t), 0)
			if got.Code == 0 {
				writeFile(t, second.file())
			}
			c.run(t, c.delete(t), 0).Expect(t, 0, "")
			if got.Code == 0 {
				second.wantFile(t, "after the delete went on")
			} else {
				second.fill(t)
			}
			second.run(t, second.delete(t), 0).Expect(t, 0, "")
			second.checkDeleted(t)
		}
	})
}

// What is kept is for the claim of that namespace and name, whoever else gets the same name by the pattern.
func TestKept(t *testing.T) {
	keep := map[string]string{"keep-on-delete": "true"}
	eachByName(t, func(t *testing.T, newClass func(map[string]string) class) {
		c := newClass(keep)
		c.fill(t)
		for range 2 {
			c.run(t, c.delete(t), 0).Expect(t, 0, "")
			c.wantFile(t, "after the delete")
		}

		other := c.next()
		other.namespace, other.properties["path-pattern"] = "team-b", claimDirectory
		other.run(t, other.provision(t), 0).Expect(t, 1, " is not ours, and not kept for this claim; move it out of the way")
		other.run(t, other.undo(t), 0).Expect(t, 0, "")
		c.wantFile(t, "after the claim of another namespace")

		c.properties["path-pattern"] = byName
		removes := c.next()
		removes.properties = map[string]string{}
		for name, value := range c.properties {
			if name != "keep-on-delete" {
				removes.properties[name] = value
			}
		}
		removes.run(t, removes.provision(t), 0).Expect(t, 1, " is not ours, and not kept for this claim; move it out of the way")
		removes.run(t, removes.undo(t), 0).Expect(t, 0, "")
		c.wantFile(t, "after a class that does not keep")

		second := c.next()
		second.run(t, second.provision(t), 0).Expect(t, 0, "created")
		c.wantFile(t, "for the next claim of the name")
		c.run(t, c.delete(t), 0).Expect(t, 0, "") // once more
		list := second.run(t, sdktest.NewPod(t, sdktest.List(c.properties), nil, nil), 0)
		marks := c.base + "/.flex-provisioner/"
		want := "storage " + another + " ssh " + c.host + " rm -rf -- " + marks + "names/" + claimDirectory + " " + marks + another + "\n"
		if list.Output != want {
			t.Errorf("listed as %q, want %q", list.Output, want)
		}
		// The class keeps no more. What the volume was made with counts.
		second.properties = removes.properties
		second.run(t, second.delete(t), 0).Expect(t, 0, "")
		c.wantFile(t, "after the second delete")

		// Somebody removes the directory. The next volume of any claim gets a new one.
		if err := os.RemoveAll(c.dir()); err != nil {
			t.Fatal(err)
		}
		third := c
		third.run(t, third.provision(t), 0)
		if files, err := os.ReadDir(third.dir()); err != nil || len(files) > 0 {
			t.Errorf("the third has %v, %v", files, err)
		}
	})
}

// Killed before and after every command, a provision that keeps gets there, and an undo leaves no hold.
func TestKeptKilled(t *testing.T) {
	eachByName(t, func(t *testing.T, newClass func(map[string]string) class) {
		for at, ended := 1, false; !ended; at++ {
			c := newClass(map[string]string{"keep-on-delete": "true"})
			ended = c.run(t, c.provision(t), at).Code != sdktest.Killed
			c.run(t, c.undo(t), 0).Expect(t, 0, "")
			for _, path := range []string{c.held(), c.mark()} {
				if _, err := os.Lstat(path); !os.IsNotExist(err) {
					t.Errorf("killed at %d, %s is there still, or %v", at, path, err)
				}
			}
			second := c.next()
			second.run(t, second.provision(t), 0).Expect(t, 0, "created")
		}
	})
}

// The first attempt's name counts until it is undone.
func TestNameOfAttempt(t *testing.T) {
	eachByName(t, func(t *testing.T, newClass func(map[string]string) class) {
		c := newClass(nil)
		c.run(t, c.provision(t), 0).Expect(t, 0, "created")
		c.properties["path-pattern"] = "elsewhere"
		c.run(t, c.provision(t), 0).Expect(t, 0, "exists already")
		c.check(t, 0o777)
		if _, err := os.Stat(filepath.Join(c.mount, "elsewhere")); !os.IsNotExist(err) {
			t.Errorf("there is a second directory, or %v", err)
		}
	})
}

// Who can write beside the marks cannot lead a provisioner out of the storage.
func TestForgedName(t *testing.T) {
	eachByName(t, func(t *testing.T, newClass func(map[string]string) class) {
		c := newClass(nil)
		outside := filepath.Join(t.TempDir(), "file")
		writeFile(t, outside)
		if err := os.MkdirAll(c.mark(), 0o777); err != nil {
			t.Fatal(err)
		}
		for _, forged := range []string{"../" + filepath.Base(filepath.Dir(outside)), filepath.Dir(outside), ".flex-provisioner"} {
			_ = os.Remove(filepath.Join(c.mark(), "name"))
			if err := os.Symlink(forged, filepath.Join(c.mark(), "name")); err != nil {
				t.Fatal(err)
			}
			for _, pod := range []sdktest.Pod{c.provision(t), c.delete(t), c.undo(t)} {
				c.run(t, pod, 0).Expect(t, 1, "name is no link of this provisioner: \""+forged+`" is no name of a directory; remove the link`)
			}
			if _, err := os.Stat(outside); err != nil {
				t.Error(err)
			}
		}
	})
}

// Another attempt may make the directory, and be killed, while one waits for flexctl. What this one read before is old
// then.
func TestProvisionBeside(t *testing.T) {
	flexctl, err := exec.LookPath("flexctl")
	if err != nil {
		t.Fatal(err)
	}

	path := os.Getenv("PATH")
	eachByName(t, func(t *testing.T, newClass func(map[string]string) class) {
		for at, reached := 1, true; reached; at++ {
			c := newClass(nil)
			script, err := filepath.Abs(c.image + "/provisioner.sh")
			if err != nil {
				t.Fatal(err)
			}

			programs := t.TempDir()
			count, other := filepath.Join(programs, "count"), filepath.Join(programs, "other")
			wrapper := fmt.Sprintf(`#!/bin/sh
[ ! -e %[2]s ] || [ -e %[2]s.done ] || [ "$1" != create-pv ] || exit 9
echo >>%[1]s
if [ "$(wc -l <%[1]s)" = %[3]d ]; then
	sh %[4]s >%[2]s 2>&1
	echo $? >%[2]s.done
fi
exec %[5]s "$@"
`, count, other, at, script, flexctl)
			if err := os.WriteFile(filepath.Join(programs, "flexctl"), []byte(wrapper), 0o700); err != nil {
				t.Fatal(err)
			}

			t.Setenv("PATH", programs+":"+path)
			c.run(t, c.provision(t), 0).Expect(t, 0, "persistentvolume/"+c.name+" created")
			t.Setenv("PATH", path)

			code, err := os.ReadFile(other + ".done")
			reached = err == nil
			if reached && string(code) != "9\n" {
				t.Errorf("the attempt beside call %d ended with %s, and not at create-pv", at, code)
			}
			if !reached && at < 5 {
				t.Fatalf("the script has only %d calls", at-1)
			}

			c.check(t, 0o777)
			c.run(t, c.delete(t), 0).Expect(t, 0, "")
			c.checkDeleted(t)
		}
	})
}
