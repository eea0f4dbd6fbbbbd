package dispatcher

// freshFirst is the order of a lane. UIDs that nobody has looked at go first: what a user waits for is the pod of a new
// claim, while the record of a pod that has ended can wait until a burst is over. Every fourth turn is the others', so that
// ends are acted on however long claims keep coming. The queue calls it with its lock held.
type freshFirst struct {
	isFresh       func(uid string) bool
	fresh, others []string
	row           int // of fresh ones that went before others
}

// freshInARow may go before one of the others does.
const freshInARow = 3

// Touch leaves a UID where it stands when it is added again.
func (q *freshFirst) Touch(string) {}

func (q *freshFirst) Push(uid string) {
	if q.isFresh(uid) {
		q.fresh = append(q.fresh, uid)
	} else {
		q.others = append(q.others, uid)
	}
}

func (q *freshFirst) Len() int { return len(q.fresh) + len(q.others) }

// Pop is called when Len is not 0.
func (q *freshFirst) Pop() string {
	line := &q.fresh
	if len(q.fresh) == 0 || len(q.others) > 0 && q.row >= freshInARow {
		line, q.row = &q.others, 0
	} else {
		q.row++
	}
	uid := (*line)[0]
	(*line)[0] = "" // the string goes when the UID is handed out, not when the line is
	*line = (*line)[1:]
	return uid
}
