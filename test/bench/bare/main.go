// Bare is the least that a provisioner pod can do: it creates the PersistentVolume that it has as JSON in VOLUME, with its
// pod's token. Case 4 measures it beside ours.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
)

const identity = "/var/run/secrets/kubernetes.io/serviceaccount/"

func main() {
	if err := create([]byte(os.Getenv("VOLUME"))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func create(volume []byte) error {
	token, err := os.ReadFile(identity + "token")
	if err != nil {
		return fmt.Errorf("read token: %w", err)
	}
	ca, err := os.ReadFile(identity + "ca.crt")
	if err != nil {
		return fmt.Errorf("read authority: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	server := net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	request, err := http.NewRequest(http.MethodPost, "https://"+server+"/api/v1/persistentvolumes", bytes.NewReader(volume))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+string(token))
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("create volume: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		text, _ := io.ReadAll(answer.Body) // the status alone is an answer too
		return fmt.Errorf("create volume: %s: %s", answer.Status, text)
	}
	return nil
}
