package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// explain adds to an error of the client what to do about it.
func explain(err error) error {
	var what string
	unreached, _ := errors.AsType[unreached](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rpctypes.ErrNoSpace):
		what = "etcd is full (its NOSPACE alarm is raised) and takes nothing more: compact and defragment it, " +
			"raise --quota-backend-bytes if need be, then etcdctl alarm disarm"
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		what = "the etcd user may not do this: give its role the keys that docs/etcd.md names"
	case errors.Is(err, rpctypes.ErrUserEmpty):
		what = "etcd wants a user: give a user name and password, or a client certificate whose common name is one"
	case errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrInvalidAuthToken):
		what = "etcd refused the user name or password"
	case errors.Is(err, rpctypes.ErrRequestTooLarge), errors.Is(err, rpctypes.ErrTooManyOps):
		what = "etcd takes no request this large: leave its --max-request-bytes and --max-txn-ops at their defaults or above"
	case errors.Is(err, rpctypes.ErrCorrupt):
		what = "etcd says that its members hold different data (its CORRUPT alarm): replace the member that is wrong"
	case errors.Is(err, rpctypes.ErrNoLeader):
		what = "etcd has no leader: most of its members are down or cannot reach each other"
	case unreached.why != "":
		what = unreached.why
	case lost(err):
		what = "etcd did not answer in time: most of its members are down or cannot be reached, or the endpoints or certificates are wrong"
	default:
		return err
	}
	return fmt.Errorf("%s (%w)", what, err)
}

// lost reports whether err leaves open what became of a request: it may have
// been carried out, or be carried out later.
func lost(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	code := status.Code(err)
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		code = e.Code()
	}
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Internal, codes.Aborted:
		return true
	}
	return false
}
