package dispatcher

// freshFirst is the order of a lane. UIDs that nobody has looked at go first: what a user waits for is the pod of a new
// claim, while the record of a pod that has ended can wait until a burst is over. Every fourth turn is the others', so that
// ends are acted on however long claims keep coming. Among the fresh as among the others namespaces take turns: who makes
// or deletes a thousand claims does not keep another namespace's waiting. The queue calls it with its lock held.
type freshFirst struct {
	of            func(uid string) (namespace string, fresh bool)
	fresh, others turns
	row           int // of fresh ones that went before others
}

// freshInARow may go before one of the others does.
const freshInARow = 3

// Touch leaves a UID where it stands when it is added again.
func (q *freshFirst) Touch(string) {}

func (q *freshFirst) Push(uid string) {
	namespace, fresh := q.of(uid)
	if fresh {
		q.fresh.enter(namespace, uid)
	} else {
		q.others.enter(namespace, uid)
	}
}

func (q *freshFirst) Len() int { return q.fresh.length + q.others.length }

// Pop is called when Len is not 0.
func (q *freshFirst) Pop() string {
	next := &q.fresh
	if q.fresh.length == 0 || q.others.length > 0 && q.row >= freshInARow {
		next, q.row = &q.others, 0
	} else {
		q.row++
	}
	uid, p, _ := next.call(nothing)
	next.leave(p, true)
	return uid
}

// nothing is what a namespace holds where only turns count.
func nothing(string) int { return 0 }
