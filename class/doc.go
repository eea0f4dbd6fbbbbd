// Package class makes the objects of a storage class, applies them to a cluster, and checks what an existing class lacks.
//
// It owns what kubectl flex class does. It may import allowlist, configmaps, contract and client-go's REST client, and must never import the
// dispatcher. It is not for import by other modules.
package class
