package cinder

import (
	"net/url"
	"strings"

	"github.com/gophercloud/gophercloud/v2/pagination"
)

// pageOf is a page whose links lead to where it came from itself, with its own query. Of a link to the next page only
// the marker is Cinder's to say. Its host is often another one that Cinder is known by, and would get the token.
func pageOf(result pagination.PageResult) pagination.LinkedPageBase {
	body, _ := result.Body.(map[string]any)
	for key, value := range body {
		if strings.HasSuffix(key, "links") {
			stay(result.URL, value)
		}
	}
	return pagination.LinkedPageBase{PageResult: result}
}

// stay changes the links, which are a list of objects with a field href, or an object with a link in each field.
func stay(page url.URL, links any) {
	switch links := links.(type) {
	case []any:
		for _, link := range links {
			if fields, ok := link.(map[string]any); ok {
				fields["href"] = sameHost(page, fields["href"])
			}
		}
	case map[string]any:
		for name, link := range links {
			links[name] = sameHost(page, link)
		}
	}
}

// sameHost is the address of a page with the marker of a link. A link without a marker stays as it is: it cannot be the
// next page of this list, and leads nowhere but to Cinder.
func sameHost(page url.URL, link any) string {
	text, _ := link.(string)
	next, err := url.Parse(text)
	if err != nil || !next.Query().Has("marker") {
		return text
	}

	query := page.Query()
	query.Set("marker", next.Query().Get("marker"))
	page.RawQuery = query.Encode()

	return page.String()
}
