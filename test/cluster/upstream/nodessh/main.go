// Command nodessh lets Kubernetes' disruptive tests log in to nodes that run no SSH server. It is the bastion that the tests go
// through, and at once every node behind it: a program runs what they send.
//
//	nodessh -listen 127.0.0.1:16422 -key FILE -- PROGRAM
//
// PROGRAM gets the address of the node and the command. FILE gets the private key that alone may log in. It listens where nobody
// but this machine should reach it.
package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:16422", "`address` to listen on")
	key := flag.String("key", "", "`file` to write the private key to")
	flag.Parse()
	if err := run(*listen, *key, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "nodessh:", err)
		os.Exit(1)
	}
}

func run(listen, keyFile string, program []string) error {
	if keyFile == "" || len(program) == 0 {
		return errors.New("usage: nodessh -listen ADDRESS -key FILE -- PROGRAM")
	}
	config, err := configure(keyFile)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go bastion(conn, config, program)
	}
}

// configure makes a key for both sides: who may log in, and who is logged in to.
func configure(file string) (*ssh.ServerConfig, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, err
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, err
	}
	mine, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, theirs ssh.PublicKey) (*ssh.Permissions, error) {
		if string(theirs.Marshal()) != string(mine.Marshal()) {
			return nil, errors.New("another key")
		}
		return nil, nil
	}}
	config.AddHostKey(signer)
	return config, nil
}

// bastion serves a connection of the tests: each channel leads to a node.
func bastion(conn net.Conn, config *ssh.ServerConfig, program []string) {
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		log.Print("bastion: ", err)
		return
	}
	go ssh.DiscardRequests(requests)
	for asked := range channels {
		var to struct {
			Host     string
			Port     uint32
			FromHost string
			FromPort uint32
		}
		if asked.ChannelType() != "direct-tcpip" || ssh.Unmarshal(asked.ExtraData(), &to) != nil {
			_ = asked.Reject(ssh.UnknownChannelType, "only connections to nodes")
			continue
		}
		channel, requests, err := asked.Accept()
		if err != nil {
			log.Print("bastion: ", err)
			continue
		}
		go ssh.DiscardRequests(requests)
		go node(tunnel{channel}, to.Host, config, program)
	}
}

// node serves the connection to a node that the bastion made.
func node(conn net.Conn, host string, config *ssh.ServerConfig, program []string) {
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		log.Printf("node %s: %v", host, err)
		return
	}
	go ssh.DiscardRequests(requests)
	for asked := range channels {
		if asked.ChannelType() != "session" {
			_ = asked.Reject(ssh.UnknownChannelType, "only sessions")
			continue
		}
		channel, requests, err := asked.Accept()
		if err != nil {
			log.Printf("node %s: %v", host, err)
			continue
		}
		go session(channel, requests, host, program)
	}
}

// session runs the command of a session.
func session(channel ssh.Channel, requests <-chan *ssh.Request, host string, program []string) {
	defer channel.Close()
	for r := range requests {
		var asked struct{ Command string }
		if r.Type != "exec" || ssh.Unmarshal(r.Payload, &asked) != nil {
			_ = r.Reply(false, nil)
			continue
		}
		_ = r.Reply(true, nil)
		cmd := exec.Command(program[0], slices.Concat(program[1:], []string{host, asked.Command})...)
		cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
		err := cmd.Run()
		code := uint32(255)
		if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() >= 0 {
			code = uint32(cmd.ProcessState.ExitCode())
		}
		log.Printf("%s: %q ended with %d: %v", host, asked.Command, code, err)
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{code}))
		return
	}
}

// tunnel makes a connection of a channel.
type tunnel struct{ ssh.Channel }

func (tunnel) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (tunnel) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (tunnel) SetDeadline(time.Time) error      { return nil }
func (tunnel) SetReadDeadline(time.Time) error  { return nil }
func (tunnel) SetWriteDeadline(time.Time) error { return nil }
