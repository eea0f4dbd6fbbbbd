//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestAuthorPages does what the tutorial for authors says for each language, word for word, from nothing to a bound claim and back.
func TestAuthorPages(t *testing.T) {
	installedAfter(t)
	for _, language := range []string{"shell", "go", "python"} {
		t.Run(language, func(t *testing.T) {
			s := begin(t)
			folder := filepath.Join(repository, "disks") // as the page calls it
			if exists(folder) {
				t.Fatalf("%s is there already; remove it", folder)
			}
			s.classes = append(s.classes, &class{s: s, name: "disks", id: "disks"})
			s.later(func(ctx context.Context) error {
				return removeImages(ctx, "name==registry.invalid/flex-provisioner/disks:dev")
			})
			s.later(func(ctx context.Context) error {
				if !exists(folder) {
					return nil // the page was followed to its end
				}
				_, err := kubectl(ctx, "delete", "--ignore-not-found", "-k", "disks")
				if err != nil {
					return err
				}
				return os.RemoveAll(folder)
			})
			s.Cleanup(func() {
				if _, err := kubectl(context.Background(), "delete", "--ignore-not-found", "--wait=false", "pod/disks", "pvc/disks"); err != nil {
					s.Error(err)
				}
			})
			out, err := command(s.Context(), "test/follow-page.sh", "docs/tutorial.md", language)
			s.ok(err)
			s.Logf("docs/tutorial.md, %s:\n%s", language, regexp.MustCompile(`(?m)^(follow-page: .*|hello from .*|default/disks)\n`).FindAllString(out, -1))
		})
	}
}
