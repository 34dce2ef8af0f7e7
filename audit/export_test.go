package audit

// Device and File are what a log writes to.
type (
	Device = device
	File   = file
)

// OpenWith is Open with something between the log and its files.
func OpenWith(cfg Config, wrap func(Device) Device) (*Log, error) { return open(cfg, wrap) }

// Queued returns how many records wait for the writer.
func (l *Log) Queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)
}

// Held returns how many bytes of records are accepted and not on the disk.
func (l *Log) Held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// SetMostLeaves bounds how many records may wait for the tree.
func (l *Log) SetMostLeaves(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = n
}

// Kill ends the log as a crash of its process does: nothing more is written,
// and its lock is free. The device must not hang.
func (l *Log) Kill() {
	l.mu.Lock()
	l.closing = true
	l.makeRoom()
	l.mu.Unlock()
	close(l.abandoned)
	close(l.closed)
	<-l.done
	l.close = func() error { return nil }
}

// Bounds of the log.
const (
	MaxHeld   = maxHeld
	SyncBytes = syncBytes
	CloseWait = closeWait
)
