package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// TestLinks: every relative link of every document leads somewhere, and to a heading that is there.
func TestLinks(t *testing.T) {
	for _, name := range markdown(t) {
		for _, match := range link.FindAllStringSubmatch(block.ReplaceAllString(read(t, name), ""), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := name
			if target != "" {
				path = filepath.Join(filepath.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s links to %s: %v", name, match[1], err)
			} else if anchor != "" && !slices.Contains(anchors(t, path), anchor) {
				t.Errorf("%s links to %s, and %s has no such heading", name, match[1], path)
			}
		}
	}
}

// anchors are the headings of a document as links name them.
func anchors(t *testing.T, name string) []string {
	t.Helper()
	var found []string
	for _, match := range heading.FindAllStringSubmatch(block.ReplaceAllString(read(t, name), ""), -1) {
		text := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(match[1]), "")
		found = append(found, strings.ReplaceAll(text, " ", "-"))
	}
	return found
}

// TestPaths: what README.md and docs/ name as a file or folder of the project is one. A * stands for any name.
func TestPaths(t *testing.T) {
	top := regexp.MustCompile(`^(configmaps|contract|deploy|dispatcher|docs|examples|images|podspec|sdk|test|tools)/[^ ]*$`)
	for _, name := range markdown(t) {
		if strings.Contains(name, "/") && !strings.HasPrefix(name, "docs/") {
			continue
		}
		for _, word := range spans(read(t, name)) {
			if !top.MatchString(word) {
				continue
			}
			if found, err := filepath.Glob(filepath.Join(root, word)); err != nil || len(found) == 0 {
				t.Errorf("%s names %s, which does not exist", name, word)
			}
		}
	}
}

// TestMenu: docs/README.md, which is the site's menu too, has every page of docs/ by its title.
func TestMenu(t *testing.T) {
	const menu = "docs/README.md"
	item := regexp.MustCompile(`(?m)^\* \[([^\]]+)\]\(([^)]+)\): .`)
	listed := map[string]string{}
	for _, match := range item.FindAllStringSubmatch(read(t, menu), -1) {
		listed[filepath.Join("docs", match[2])] = match[1]
	}
	for _, page := range markdown(t) {
		if !strings.HasPrefix(page, "docs/") || page == menu {
			continue
		}
		title, _, _ := strings.Cut(read(t, page), "\n")
		if title != "# "+listed[page] {
			t.Errorf("%s calls %s %q, whose title is %q", menu, page, listed[page], title)
		}
	}
}
