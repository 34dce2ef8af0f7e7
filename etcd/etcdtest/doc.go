// Package etcdtest runs real etcd clusters on loopback, for tests: members can
// be stopped, cut off from each other, and made slow or silent for clients. It
// is a module of its own so that programs need not know etcd's server.
package etcdtest
