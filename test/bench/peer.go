package main

type peer struct{}

func (p *peer) stop() {}
