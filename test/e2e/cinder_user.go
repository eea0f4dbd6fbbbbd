//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// cinder is the real Cinder of make cinder-up, as one of its users sees it.
type cinder struct {
	s *scope
	// env is .cinder/env, for this machine; pods is .cinder/env.pods, for pods.
	env, pods map[string]string
	token     string
	endpoint  string
}

// cinder starts a Cinder with that authentication, unless it runs.
func (s *scope) cinder(auth string) *cinder {
	s.Helper()
	if running := readEnv("env")["CINDER_AUTH"]; running != "" && running != auth {
		_, err := command(s.Context(), "test/cinder/down.sh")
		s.ok(err)
	}
	_, err := command(s.Context(), "env", "AUTH="+auth, "test/cinder/up.sh")
	s.ok(err)
	c := &cinder{s: s, env: readEnv("env"), pods: readEnv("env.pods")}
	if c.pods == nil {
		s.Fatal("the Cinder is not where pods reach it: make cinder-down")
	}
	c.endpoint, c.token = c.env["CINDER_ENDPOINT"], "admin:"+c.env["CINDER_PROJECT"]
	project := c.env["CINDER_PROJECT"]
	if auth == "keystone" {
		c.token, project = c.logIn()
	}
	c.endpoint += "/" + project
	return c
}

// readEnv reads lines of KEY=value; it is nil without the file.
func readEnv(file string) map[string]string {
	text, err := os.ReadFile(filepath.Join(repository, ".cinder", file))
	if err != nil {
		return nil
	}
	env := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			env[key] = value
		}
	}
	return env
}

// standalone, password and applicationCredential are the Secret's keys for each way to log in.
func (c *cinder) standalone() map[string]string {
	return map[string]string{"cloud.conf": fmt.Sprintf("[Cinder]\nendpoint = %s\n[Global]\ntenant-name = %s\n", c.pods["CINDER_ENDPOINT"], c.pods["CINDER_PROJECT"])}
}

func (c *cinder) password() map[string]string {
	return map[string]string{"OS_PASSWORD": c.pods["OS_PASSWORD"], "demo-openrc.sh": fmt.Sprintf("#!/usr/bin/env bash\n"+
		"export OS_AUTH_URL=%s\nexport OS_USERNAME=%q\nexport OS_PROJECT_NAME=%q\nexport OS_USER_DOMAIN_NAME=%q\nexport OS_PROJECT_DOMAIN_NAME=%[4]q\n"+
		"echo \"Password of $OS_USERNAME: \"\nread -sr OS_PASSWORD_INPUT\nexport OS_PASSWORD=$OS_PASSWORD_INPUT\nexport OS_REGION_NAME=%[5]q\n",
		c.pods["OS_AUTH_URL"], c.pods["OS_USERNAME"], c.pods["OS_PROJECT_NAME"], c.pods["OS_USER_DOMAIN_NAME"], c.pods["OS_REGION_NAME"])}
}

func (c *cinder) applicationCredential() map[string]string {
	return map[string]string{"OS_AUTH_URL": c.pods["OS_AUTH_URL"], "OS_REGION_NAME": c.pods["OS_REGION_NAME"],
		"OS_APPLICATION_CREDENTIAL_ID": c.pods["APPCRED_ID"], "OS_APPLICATION_CREDENTIAL_SECRET": c.pods["APPCRED_SECRET"]}
}

// logIn gets a token for the project.
func (c *cinder) logIn() (token, project string) {
	c.s.Helper()
	domain := map[string]string{"name": c.env["OS_USER_DOMAIN_NAME"]}
	body := map[string]any{"auth": map[string]any{
		"identity": map[string]any{"methods": []string{"password"}, "password": map[string]any{
			"user": map[string]any{"name": c.env["OS_USERNAME"], "password": c.env["OS_PASSWORD"], "domain": domain}}},
		"scope": map[string]any{"project": map[string]any{"name": c.env["OS_PROJECT_NAME"], "domain": domain}},
	}}
	var answer struct {
		Token struct {
			Project struct{ ID string } `json:"project"`
		} `json:"token"`
	}
	header := c.send("POST", c.env["OS_AUTH_URL"]+"/auth/tokens", body, &answer)
	return header.Get("X-Subject-Token"), answer.Token.Project.ID
}

// call asks Cinder for something. The answer may be nil.
func (c *cinder) call(method, path string, body, answer any) {
	c.s.Helper()
	c.send(method, c.endpoint+path, body, answer)
}

func (c *cinder) send(method, url string, body, answer any) http.Header {
	c.s.Helper()
	header, err := c.try(method, url, body, answer)
	c.s.ok(err)
	return header
}

// try is for those who go on without an answer.
func (c *cinder) try(method, url string, body, answer any) (http.Header, error) {
	content := io.Reader(http.NoBody)
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(context.Background(), method, url, content)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Auth-Token", c.token)
	request.Header.Set("OpenStack-API-Version", "volume 3.70")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", method, url, err)
	case response.StatusCode >= 300:
		return nil, fmt.Errorf("%s %s: %s: %s", method, url, response.Status, text)
	case answer == nil:
		return response.Header, nil
	}
	return response.Header, json.Unmarshal(text, answer)
}

// cinderVolume is what the tests look at.
type cinderVolume struct {
	ID, Name, Status string
	Size             int
	SourceVolid      string `json:"source_volid"`
	Attachments      []any
}

func (c *cinder) volumes() []cinderVolume {
	c.s.Helper()
	list, err := c.list()
	c.s.ok(err)
	return list
}

// storage lists the names of the volumes that Cinder has, those that it is deleting among them.
func (c *cinder) storage() ([]string, error) {
	volumes, err := c.list()
	var names []string
	for _, v := range volumes {
		names = append(names, v.Name)
	}
	return names, err
}

func (c *cinder) list() ([]cinderVolume, error) {
	var list struct{ Volumes []cinderVolume }
	_, err := c.try("GET", c.endpoint+"/volumes/detail", nil, &list)
	return list.Volumes, err
}

// volume is the one of that name, or nil.
func (c *cinder) volume(name string) *cinderVolume {
	c.s.Helper()
	for _, v := range c.volumes() {
		if v.Name == name {
			return &v
		}
	}
	return nil
}

// until waits until the volume of that name has the status; empty for gone.
func (c *cinder) until(name, status string) {
	c.s.Helper()
	c.s.wait(patient, "cinder volume "+name+" "+status, func() string {
		v := c.volume(name)
		switch {
		case v == nil && status != "":
			return "it is not there"
		case v != nil && v.Status != status:
			return "it is " + v.Status
		}
		return ""
	})
}

// left names what Cinder and its iSCSI target have: nothing, at the end of a test.
func (c *cinder) left() string {
	c.s.Helper()
	var names []string
	for _, v := range c.volumes() {
		names = append(names, "volume "+v.Name+" ("+v.Status+")")
	}
	var list struct{ Attachments []struct{ ID string } }
	c.call("GET", "/attachments", nil, &list)
	for _, a := range list.Attachments {
		names = append(names, "attachment "+a.ID)
	}
	targets, err := command(c.s.Context(), "env", "TGT_IPC_SOCKET=.cinder/state/tgt.sock", "tgtadm", "--op", "show", "--mode", "target")
	c.s.ok(err)
	for line := range strings.Lines(targets) {
		if strings.HasPrefix(line, "Target ") {
			names = append(names, "export "+strings.TrimSpace(line))
		}
	}
	return strings.Join(names, ", ")
}
