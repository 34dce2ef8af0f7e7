package audit

// File is what the log writes to.
type File = file

// OpenWith is Open with something between the log and its file.
func OpenWith(dir string, wrap func(File) File) (*Log, error) { return open(dir, wrap) }

// Queued returns how many records wait for the writer.
func (l *Log) Queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)
}

// MaxQueue is how many bytes of records may wait, and MaxRecord how many one
// may have.
const (
	MaxQueue  = maxQueue
	MaxRecord = maxRecord
)
