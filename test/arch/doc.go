// Package arch enforces who may import whom: cmd -> dispatcher -> podspec -> configmaps -> contract; what runs inside a
// provisioner pod knows the contract and the SDK alone; and nothing but tests imports what is in test/.
package arch
