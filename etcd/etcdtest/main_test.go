package etcdtest_test

import (
	"os"
	"testing"

	"github.com/writ-pdp/writ/etcd/etcdtest"
)

func TestMain(m *testing.M) {
	etcdtest.RunMember()
	os.Exit(m.Run())
}
