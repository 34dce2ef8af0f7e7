// Package serve tests the program itself as it is run: replicas of pdp serve
// that share an etcd cluster, and one alone, as processes of their own that are
// killed, paused and cut off while callers propose, redeem and revoke. It has
// tests only.
package serve
