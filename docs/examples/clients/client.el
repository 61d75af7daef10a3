;; usage: emacs -Q --batch -l client.el ask|allow|deny TEXT [SESSION]  -*- lexical-binding: t; -*-
;; Say it, show the answer being written, answer permissions.
(mapc #'require '(jsonrpc map seq))
(seq-setq (client-rule client-said client-session) command-line-args-left)
(setq command-line-args-left nil client-shown (make-hash-table :test #'equal) client-over nil client-cursor nil client-turn t)

(defun client-permit (request)
  (let* ((question (format "\n%s? [y/n] " (map-nested-elt request '(:toolCall :title))))
         (yes (or (equal client-rule "allow") (and (equal client-rule "ask") (equal (read-string question) "y"))))
         (kind (if yes "allow_once" "deny"))
         (option (seq-find (lambda (row) (equal (plist-get row :kind) kind)) (plist-get request :options)))
         (answer (list :requestId (plist-get request :requestId) :answer (list :optionId (plist-get option :id)))))
    (jsonrpc-async-request client-daemon :hermes/request/answer answer)))

(defun client-show (kind data &optional id turn)
  (let* ((item (plist-get data :item))
         (id (or (plist-get item :itemId) id))
         (old (gethash id client-shown (and (equal (plist-get item :type) "agentMessage") "")))
         (more (plist-get data :text)) ; offsets count characters, as Emacs does
         (text (and old (or (plist-get item :text) (concat (substring old 0 (plist-get data :offset)) more)))))
    (when text
      (unless (or (gethash id client-shown) (zerop (hash-table-count client-shown))) (send-string-to-terminal "\n"))
      (send-string-to-terminal (substring text (min (length old) (length text))))
      (puthash id text client-shown))
    (when (equal (plist-get data :kind) "permission") (client-permit data))
    (when (equal kind "turn.ended") (push turn client-over))))

(defun client-subscribe (&optional since)
  (setq client-cursor nil) ; until the answer, events are passed over
  (jsonrpc-async-request
   client-daemon :hermes/session/subscribe `(:sessionId ,client-session ,@(and since `(:since ,since)))
   :success-fn (pcase-lambda ((map :epoch :seq (:snapshot (map :items :inflight :openRequests :turn))))
                 (setq client-cursor (list :epoch epoch :seq seq))
                 (seq-doseq (item items)
                   (client-show (unless turn "turn.ended") (list :item item) nil (plist-get item :turnId)))
                 (seq-doseq (row inflight)
                   (client-show nil (list :item `(:text ,(plist-get row :text) ,@(plist-get row :item)))))
                 (seq-doseq (request openRequests) (client-show "request.opened" request)))))

(defun client-hear (_ method event)
  (pcase-let (((map :epoch :seq :prev :kind :data :itemId :turnId) event))
    (cond ((and (eq method 'hermes/event) (equal client-cursor (list :epoch epoch :seq prev)))
           (setq client-cursor (list :epoch epoch :seq seq))
           (client-show kind data itemId turnId))
          ((and client-cursor (memq method '(hermes/event hermes/desync))) (client-subscribe client-cursor)))))

(setq client-daemon
      (make-instance 'jsonrpc-process-connection :name "hermes" :notification-dispatcher #'client-hear :process
                     (make-process :name "hermes" :command '("hermes-daemon" "stdio") :coding 'utf-8-emacs-unix
                                   :connection-type 'pipe :stderr (get-buffer-create "*hermes stderr*"))))
(jsonrpc-request client-daemon :initialize '(:hermes (:client (:name "client.el") :capabilities (:requests ["permission"]))))
(unless client-session
  (let ((made (jsonrpc-request client-daemon :hermes/session/create (list :cwd (expand-file-name default-directory)))))
    (setq client-session (map-nested-elt made '(:session :sessionId)))))
(client-subscribe)
(jsonrpc-async-request client-daemon :hermes/turn/submit
  (list :sessionId client-session :key (format "%s" (float-time)) :input `[(:type "text" :text ,client-said)])
  :success-fn (lambda (result) (setq client-turn (plist-get result :turnId))))
(while (not (member client-turn client-over)) (accept-process-output nil 1))
(send-string-to-terminal (format "\n%s\n" client-session))
