package etcdtest_test

import clientv3 "go.etcd.io/etcd/client/v3"

// clientPrefix reads all keys with a prefix.
var clientPrefix = clientv3.WithPrefix()

func slicesOf[T any](all ...T) []T { return all }
